import random

import pytest
from jails import session, stepping

from spade_gym.programs.program import Program
from spade_gym.sandbox.audit import PROGRAM_FILE
from spade_gym.sandbox.copies import Copier, check_function, table_of
from spade_gym.sandbox.reach import Surroundings, reaches_out
from spade_gym.sandbox.savepoint import MODULE_NAME, Uncopyable, capture, reinstate

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


# ---- what counts as safe

#: One line of a program's module, one of its reset and one of its step, whose state a copy would miss.
OUT_OF_REACH = {
    "a cached function": ("import functools\n@functools.lru_cache(None)\ndef f(i): return i", "", "f(1)"),
    "a value of an enumeration": ("import enum\nclass C(enum.Enum):\n    A = []", "", "C.A.value.append(1)"),
    "an attribute of a member": ("import enum\nclass C(enum.Enum):\n    A = 0\nC.A.n = 0", "", "C.A.n += 1"),
    "a class made in a function": ("", "class L:\n    n = 0\nself.held = L", "self.held.n += 1"),
    "a class made by type()": ("KINDS = [type('K', (), {'n': 0})]", "", "KINDS[0].n += 1"),
    "a metaclass": ("class M(type):\n    n = 0\nclass K(metaclass=M): pass", "", "M.n += 1"),
    "the environment": ("import os", "", "os.environ['N'] = 'x'"),
    "the decimal context": ("import decimal", "", "decimal.getcontext().prec += 1"),
    "a logger": ("import logging\nLOG = logging.getLogger('x')", "", "LOG.n = 1"),
    "a context variable": ("import contextvars\nV = contextvars.ContextVar('V', default=0)", "", "V.set(1)"),
    "a module of its own": ("import sys, types", "", "sys.modules['store'] = types.ModuleType('store')"),
    "a module in an attribute": ("import types", "self.m = types.ModuleType('x')", "self.m.n = 1"),
    "a partial": ("import functools", "self.f = functools.partial(self.reset)", ""),
    "an iterator of itertools": ("import itertools", "self.c = itertools.count()", "next(self.c)"),
    "a reversed list": ("", "self.c = reversed([1, 2, 3])", "next(self.c)"),
    "a view": ("", "self.d = {1: 2}; self.v = self.d.items()", ""),
    "an iterator that calls": ("", "self.c = iter(lambda: 1, None)", ""),
    "a memory view": ("", "self.a = bytearray(4); self.b = memoryview(self.a)", ""),
    "a text stream": ("import io", "self.a = io.StringIO()", ""),
    "slots": ("class K:\n    __slots__ = ('n',)", "self.k = K(); self.k.n = 0", "self.k.n += 1"),
    "an array that looks into another": ("import numpy as np", "self.a = np.zeros(4); self.b = self.a[:2]", ""),
    "an array of objects": ("import numpy as np", "self.a = np.array([[], None], dtype=object)", ""),
    "print options": ("import numpy as np", "", "np.set_printoptions(precision=3)"),
    "a set of objects": ("class O: pass", "self.s = {O(), O()}", ""),
    "a key that is an object": ("class O: pass", "self.s = {O(): 1}", ""),
    "a subclass of dict": ("class D(dict): pass", "self.s = D()", ""),
    "a destructor": ("class N:\n    def __del__(self): pass", "", ""),
    "an address": ("", "self.o = []; self.d = {id(self.o): 1}", ""),
    "an abstract class of others": ("import collections.abc", "", "collections.abc.Sized.register(type(self))"),
    "code from text": ("", "", "exec('import math; math.n = 1')"),
    "the builtins": ("", "", "__builtins__['zz'] = 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUT_OF_REACH)
def test_what_is_not_known_to_be_safe_is_replayed(name: str) -> None:
    before, reset, step = OUT_OF_REACH[name]
    what = stepping(f"{step}\nreturn 'x', 0.0, False, False, {{}}", before, f"{reset}\nreturn 'ready', {{}}")
    with session(what) as played:
        slot = played.open()
        played.reset(slot, 3)
        assert played.snapshot(slot).copy is None
        assert played.fingerprint(slot) is None


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ("import math", "math.n = getattr(math, 'n', 0) + 1\nout = 'm'"),
        ("def helper(): pass", "out = str(getattr(helper, 'n', 0)); helper.n = getattr(helper, 'n', 0) + 1"),
        ("import enum\nclass C(enum.Enum):\n    A = 0", "out = str(getattr(C.A, 'n', 0)); C.A.n = 1"),
    ],
)
def test_state_that_appears_after_the_save_point_is_not_overlooked(before: str, step: str) -> None:
    with session(stepping(f"{step}\nreturn out, 0.0, False, False, {{}}", before)) as played:
        slot = played.open()
        played.reset(slot, 3)
        point = played.snapshot(slot)
        assert point.copy is not None
        first = played.step(slot, "a")
        played.restore(slot, point)
        assert played.step(slot, "a") == first


SAFE = {
    "rebound functions": ("def one(): return 1\ndef two(): return 2\nRULE = one",
                          "global RULE\nout = str(RULE()); RULE = two if RULE is one else one"),
    "a private global": ("__count = [0]\ndef bump(): __count[0] += 1; return str(__count)", "out = bump()"),
    "a special class attribute": ("class B:\n    __state__ = []", "B.__state__.append(1); out = str(B.__state__)"),
    "a class that wants to copy itself": (
        "class K:\n    n = 0\n    def __deepcopy__(self, m): return self\nHELD = K()",
        "HELD.n += 1; out = str(HELD.n)"),
    "a class that hides its state": (
        "class K:\n    n = 0\n    def __getstate__(self): return {}\nHELD = K()", "HELD.n += 1; out = str(HELD.n)"),
    "a set": ("SEEN = set()", "SEEN.add(self.n); out = str(SEEN)"),
    "all sorts of collections": (
        "import collections as c\nD = c.defaultdict(list); Q = c.deque(maxlen=2)\n"
        "N = c.Counter(); O = c.OrderedDict()\nP = c.namedtuple('P', 'x y')\nHELD = [P([], 1)]",
        "D[action].append(1); Q.append(action); N[action] += 1; O[action] = D; O.move_to_end(action, last=False)\n"
        "HELD[0].x.append(1); out = str((D, Q, N, O, HELD))"),
    "a bound method": ("import types\ndef inc(s): s.n += 10\nHELD = []",
                       "HELD.append(types.MethodType(inc, self)) if not HELD else 0\nHELD[0](); out = str(self.n)"),
    "annotations and generics": ("from typing import Dict, List\nGrid = List[List[int]]\nBOX: Dict[str, int] = {}",
                                 "BOX[action] = BOX.get(action, 0) + 1; out = str(BOX)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_more_that_is_copied(name: str) -> None:
    before, step = SAFE[name]
    first, second, copied = continued(stepping(f"{step}\nreturn out, 0.0, False, False, {{}}", before))
    assert copied
    assert second == first


@pytest.mark.parametrize(
    "source", ["import os", "from sys import modules", "x = eval('1')", "class A:\n def __del__(s): 0"]
)
def test_reaching_out(source: str) -> None:
    assert reaches_out(source)
    assert not reaches_out("import math, random\nfrom collections import deque\nprint(math.pi)")


def test_untouched_surroundings() -> None:
    import math
    import textwrap

    around = Surroundings()
    assert around.are_untouched(())
    assert around.hold(textwrap.dedent)
    assert not around.hold(test_untouched_surroundings)
    math.extra = 1  # type: ignore[attr-defined]
    try:
        assert not around.are_untouched(())
    finally:
        del math.extra  # type: ignore[attr-defined]
    before, random.choice = random.choice, random.random
    try:
        assert not around.are_untouched(())
        assert around.are_untouched(("choice",))
    finally:
        random.choice = before


def program_names(source: str) -> dict[str, object]:
    names: dict[str, object] = {"__name__": MODULE_NAME}
    exec(compile(source, PROGRAM_FILE, "exec"), names)
    return names


def test_functions_that_are_mere_code() -> None:
    names = program_names(
        "import dataclasses, collections\n"
        "count = [0]\n"
        "def plain(x, y=(1, None), *, z='a'): return x\n"
        "class A:\n    def f(self): return 1\n"
        "class B(A):\n    def f(self): return super().f()\n"
        "@dataclasses.dataclass\nclass C:\n    x: int = 1\n    y: list = dataclasses.field(default_factory=list)\n"
        "P = collections.namedtuple('P', 'x')\n"
    )
    for function in (names["plain"], names["A"].f, names["B"].f, names["C"].__init__, names["C"].__repr__,  # type: ignore[attr-defined]
                     names["P"]._asdict, names["P"].__new__):  # type: ignore[attr-defined]  # fmt: skip
        check_function(function)  # type: ignore[arg-type]
    hiding = program_names(
        "def default(x=[]): pass\ndef named(): pass\nnamed.n = 1\n"
        "def make():\n    n = 0\n    def inner(): return n\n    return inner\nclosure = make()"
    )
    for name in ("default", "named", "closure"):
        with pytest.raises(Uncopyable, match="the function"):
            check_function(hiding[name])  # type: ignore[arg-type]


def test_sets_are_copied_with_their_table_or_not_at_all() -> None:
    copier = Copier([], {}, Surroundings())
    grown = {n * 8 for n in range(20)}
    assert list(copier.copy(grown)) == list(grown)
    shrunk = set(range(50))
    shrunk -= set(range(40))
    with pytest.raises(Uncopyable, match="order"):
        Copier([], {}, Surroundings()).copy(shrunk)
    assert table_of({1, 2}) == table_of({1, 2})
    assert table_of({1, 9}) != table_of({9, 1})
    emptied = {1, 2}
    emptied.discard(2)
    assert table_of(emptied) != table_of({1})


def test_copies_keep_what_is_shared_and_what_refers_to_itself() -> None:
    one: list[object] = [[], {"a": (1, [2])}, bytearray(b"x")]
    one += [one[0], one]
    new = Copier([], {}, Surroundings()).copy(one)
    assert new is not one
    assert new[3] is new[0] is not one[0]
    assert new[4] is new
    assert new[:3] == one[:3]
    assert new[1]["a"][1] is not one[1]["a"][1]  # type: ignore[index]


def test_capture_and_reinstate_by_hand() -> None:
    box = type("Box", (), {"__module__": MODULE_NAME, "held": [1], "count": 0})
    module = {"__name__": MODULE_NAME, "Box": box, "total": 5, "random": random, "seen": []}
    instance = box()
    instance.own = module["seen"]
    around = Surroundings()
    state = capture(instance, module, {}, around)
    box.held.append(2)  # type: ignore[attr-defined]
    box.count, box.late = 9, 1  # type: ignore[attr-defined]
    module.update(total=6, late=1)
    instance.own.append("x")
    copied = reinstate(state, module, {}, around)
    assert (box.held, box.count, hasattr(box, "late")) == ([1], 0, False)  # type: ignore[attr-defined]
    assert (module["total"], "late" in module, module["seen"]) == (5, False, [])
    assert copied.own is module["seen"]
