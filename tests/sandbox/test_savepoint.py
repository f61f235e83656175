import random

import pytest
from jails import session, stepping

from spade_gym.programs.program import Program
from spade_gym.sandbox.savepoint import MODULE_NAME, Uncopyable, capture, hides_state, reinstate

ACTIONS = ["a", "b", "c", "a"]

#: Programs whose state lies in all sorts of places; each counts, so that a lost state shows.
COPYABLE = {
    "an attribute": stepping("return f'{action} {self.n}', 0.0, False, False, {}"),
    "a global number": stepping(
        "global COUNT\nCOUNT += 1\nreturn str(COUNT), 0.0, False, False, {}", before="COUNT = 0"
    ),
    "a global list": stepping("SEEN.append(action)\nreturn str(SEEN), 0.0, False, False, {}", before="SEEN = []"),
    "a global that comes late": stepping(
        "globals()['x' + action] = globals().get('x' + action, 0) + 1\n"
        "return str(sorted(k for k in globals() if k[0] == 'x')) + str(globals()['x' + action]), 0.0, False, False, {}"
    ),
    "a class attribute": stepping(
        "type(self).total = getattr(type(self), 'total', 0) + 1\nreturn str(self.total), 0.0, False, False, {}"
    ),
    "a class attribute of another class": stepping(
        "Box.held.append(action)\nBox.Inner.count += 1\nreturn f'{Box.held} {Box.Inner.count}', 0.0, False, False, {}",
        before="class Box:\n    held = []\n    class Inner:\n        count = 0",
    ),
    "the global generator": stepping(
        "return f'{random.random()} {randint(0, 999)}', 0.0, False, False, {}",
        before="import random\nfrom random import randint",
    ),
    "generators of its own": stepping(
        "return f'{self.own.random()} {self.unseeded.random()} {random.Random().random()}', 0.0, False, False, {}",
        before="import random",
        reset="self.own = random.Random(seed); self.unseeded = random.Random(); return 'ready', {}",
    ),
    "entropy and time": stepping(
        "return f'{uuid.uuid4()} {time.time()} {secrets.token_hex(4)}', 0.0, False, False, {}",
        before="import secrets, time, uuid",
    ),
    "a bound method of a generator": stepping(
        "return f'{self.draw()} {random.random()}', 0.0, False, False, {}",
        before="import random", reset="self.draw = random.random; return 'ready', {}",
    ),
    "objects that refer to each other": stepping(
        "self.node.twin.count += 1\nreturn str(self.twin.count), 0.0, False, False, {}",
        before="class Node:\n    count = 0",
        reset="self.node, self.twin = Node(), Node(); self.node.twin = self.twin; return 'ready', {}",
    ),
    "a dataclass and an enumeration": stepping(
        "self.card.turns.append(Suit.HEARTS)\nreturn str(self.card), 0.0, False, False, {}",
        before="""
        import dataclasses, enum
        class Suit(enum.Enum):
            HEARTS = 1
        @dataclasses.dataclass
        class Card:
            suit: Suit
            turns: list = dataclasses.field(default_factory=list)
        """,
        reset="self.card = Card(Suit.HEARTS); return 'ready', {}",
    ),
    "an abstract class with super()": stepping(
        "return str(self.child.count()), 0.0, False, False, {}",
        before="""
        import abc
        class Parent(abc.ABC):
            def __init__(self): self.number = 0
            @abc.abstractmethod
            def count(self): self.number += 1; return self.number
        class Child(Parent):
            def __init__(self): super().__init__()
            def count(self): return super().count()
        """,
        reset="self.child = Child(); return 'ready', {}",
    ),
}  # fmt: skip
HIDING = {
    "a closure": stepping(
        "return str(self.count()), 0.0, False, False, {}",
        before="""
        def counter():
            n = 0
            def count():
                nonlocal n
                n += 1
                return n
            return count
        """,
        reset="self.count = counter(); return 'ready', {}",
    ),
    "a closure over self": stepping(
        "self.bump()\nreturn str(self.n), 0.0, False, False, {}",
        reset="self.bump = lambda: setattr(self, 'n', self.n + 10); return 'ready', {}",
    ),
    "a mutable default": stepping(
        "return str(remember(action)), 0.0, False, False, {}",
        before="def remember(x, seen=[]):\n    seen.append(x)\n    return seen",
    ),
    "an attribute of a function": stepping(
        "step.n += 1\nreturn str(step.n), 0.0, False, False, {}", before="def step(): pass\nstep.n = 0"
    ),
    "a generator": stepping(
        "return str(next(self.stream)), 0.0, False, False, {}",
        reset="self.stream = (n * n for n in range(99)); return 'ready', {}",
    ),
    "an iterator": stepping(
        "return str(next(self.stream)), 0.0, False, False, {}",
        reset="self.stream = iter(list(range(99))); return 'ready', {}",
    ),
    "a bound method of a list": stepping(
        "self.push(action)\nreturn str(self.stack), 0.0, False, False, {}",
        reset="self.stack = []; self.push = self.stack.append; return 'ready', {}",
    ),
    "a weak reference": stepping(
        "self.ref().n += 1\nreturn str(self.other.n), 0.0, False, False, {}",
        before="import weakref\nclass Other:\n    n = 0",
        reset="self.other = Other(); self.ref = weakref.ref(self.other); return 'ready', {}",
    ),
    "an object that refuses": stepping(
        "self.odd.n += 1\nreturn str(self.odd.n), 0.0, False, False, {}",
        before="class Odd:\n    n = 0\n    def __deepcopy__(self, memo): raise SystemError('no')",
        reset="self.odd = Odd(); return 'ready', {}",
    ),
}


def continued(what: Program, level: str | None = None) -> tuple[list[str], list[str], bool]:
    """Play on twice from one save point; return both continuations, and whether there was a copy."""
    with session(what, level) as played:
        slot, other = played.open(), played.open()
        played.reset_many([(slot, 3), (other, 4)])
        played.step(slot, "a")
        point = played.snapshot(slot)
        first = [played.step(slot, action).observation for action in ACTIONS]
        played.step(other, "x")
        played.restore(slot, point)
        return first, [played.step(slot, action).observation for action in ACTIONS], point.copy is not None


@pytest.mark.parametrize("name", COPYABLE)
@pytest.mark.parametrize("level", [None, "L0"])
def test_a_copied_save_point_goes_on_the_same(name: str, level: str | None) -> None:
    first, second, copied = continued(COPYABLE[name], level)
    assert copied
    assert second == first


@pytest.mark.parametrize("name", HIDING)
def test_what_copying_cannot_reach_is_replayed(name: str) -> None:
    first, second, copied = continued(HIDING[name])
    assert not copied
    assert second == first


@pytest.mark.parametrize("expression", ["np.random.rand()", "self.rng.random()"])
def test_a_save_point_holds_numpys_generators(expression: str) -> None:
    what = stepping(
        f"return repr(float({expression})), 0.0, False, False, {{}}",
        before="import numpy as np",
        reset="self.rng = np.random.default_rng(seed); return 'ready', {}",
    )
    first, second, copied = continued(what)
    assert copied
    assert second == first
    assert len(set(first)) == len(first)


def test_taking_a_save_point_changes_nothing() -> None:
    for what in (*COPYABLE.values(), *HIDING.values()):
        with session(what) as played:
            slot, watched = played.open(), played.open()
            played.reset_many([(slot, 5), (watched, 5)])
            for action in ACTIONS:
                played.snapshot(watched)
                assert played.step(watched, action) == played.step(slot, action)


def test_a_save_point_outlives_its_worker_and_its_episode() -> None:
    with session(COPYABLE["the global generator"]) as played:
        slot = played.open()
        played.reset(slot, 3)
        played.step(slot, "a")
        point = played.snapshot(slot)
        expected = played.step(slot, "b")
        played.reset(slot, 8)
        played.step(slot, "z")
        played.restore(slot, point)
        assert played.step(slot, "b") == expected
        played.close()
        played.restore(slot, point)
        assert played.step(slot, "b") == expected
        other = played.open()
        played.restore(other, point)
        assert played.step(other, "b") == expected


def test_many_save_points_do_not_fill_the_worker() -> None:
    with session(COPYABLE["an attribute"]) as played:
        slot = played.open()
        played.reset(slot, 0)
        first = played.snapshot(slot)
        for _ in range(300):
            played.step(slot, "a")
            played.snapshot(slot)
        played.restore(slot, first)
        assert played.step(slot, "a").observation == "a 1"


# ---- the functions themselves


def test_what_hides_state() -> None:
    count = [0]

    class Parent:
        def plain(self, x: int = 3, y: tuple[int, ...] = (1, 2)) -> int:
            return x

        def default(self, x: list[int] = []) -> None:  # noqa: B006
            x.append(1)

        def captured(self) -> None:
            count[0] += 1

        @property
        def shown(self) -> list[int]:
            return count

        @classmethod
        def made(cls) -> None:
            """Nothing."""

    class Child(Parent):
        def plain(self, x: int = 3, y: tuple[int, ...] = (1, 2)) -> int:
            return super().plain(x)

    assert not hides_state(Parent.plain)
    assert not hides_state(vars(Child)["plain"])
    assert not hides_state(vars(Parent)["made"])
    assert not hides_state(len)
    assert hides_state(Parent.default)
    assert hides_state(Parent.captured)
    assert hides_state(vars(Parent)["shown"])
    assert hides_state(count.append)


def test_functions_that_hold_each_other_are_no_riddle() -> None:
    def one() -> object:
        return two

    def two() -> object:
        return one

    assert not hides_state(one)


def test_capture_and_reinstate_by_hand() -> None:
    box = type("Box", (), {"__module__": MODULE_NAME, "held": [1], "count": 0})
    module = {"__name__": MODULE_NAME, "Box": box, "total": 5, "random": random, "seen": []}
    instance = box()
    instance.own = module["seen"]
    state = capture(instance, module, {})
    box.held.append(2)  # type: ignore[attr-defined]
    box.count, box.late = 9, 1  # type: ignore[attr-defined]
    module.update(total=6, late=1)
    instance.own.append("x")
    copied = reinstate(state, module, {})
    assert (box.held, box.count, hasattr(box, "late")) == ([1], 0, False)  # type: ignore[attr-defined]
    assert (module["total"], "late" in module, module["seen"]) == (5, False, [])
    assert copied.own is module["seen"]


def test_copys_own_table_is_left_as_it_was() -> None:
    import copy

    before = dict(copy._deepcopy_dispatch)  # type: ignore[attr-defined]
    with pytest.raises(Uncopyable):
        capture({"x": iter([1])}, {}, {})
    assert copy._deepcopy_dispatch == before  # type: ignore[attr-defined]
    assert copy.deepcopy(len) is len
