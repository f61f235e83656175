"""Programs that depart from the contract are run all the same, and each departure is named."""

import re
from pathlib import Path

import pytest
from jails import program, session, stepping

from spade_gym.errors import ProgramError
from spade_gym.programs.program import Program
from spade_gym.sandbox import adapt
from spade_gym.sandbox.adapt import ADAPTERS
from spade_gym.types import Transition


def play(what: Program, action: str = "1", **options: object) -> tuple[Transition, Transition, set[str], str]:
    """One reset and one step; with the adapters and the base."""
    with session(what, **options) as played:
        slot = played.open()
        first, second = played.reset(slot, 3), played.step(slot, action)
        return first, second, set(played.report.adapters), played.report.base


def test_a_program_that_keeps_the_contract_needs_no_adapter() -> None:
    first, second, adapters, base = play(stepping("return 'x', 0.5, False, False, {}"))
    assert (first.observation, second.reward, adapters, base) == ("ready", 0.5, set(), "plain")


@pytest.mark.parametrize(
    ("reset", "observation", "info", "adapter"),
    [
        ("return 'only'", "only", {}, "observation_only_reset"),
        ("return ('only',)", "only", {}, "observation_only_reset"),
        ("return 'both', None", "both", {}, None),
        ("return 'both', {'a': 1}", "both", {"a": 1}, None),
        ("return {'board': [1, 2]}, {}", '{"board": [1, 2]}', {}, "dict_observation"),
        ("return [1, 2]", "[1, 2]", {}, "observation_only_reset"),
        ("import numpy as np; return np.zeros(2), {}", "[0.0, 0.0]", {}, "array_observation"),
    ],
)
def test_resets(reset: str, observation: str, info: dict[str, object], adapter: str | None) -> None:
    first, _, adapters, _ = play(stepping("return 'x', 0.0, False, False, {}", reset=reset))
    assert (first.observation, first.info) == (observation, info)
    assert adapter is None or adapter in adapters


@pytest.mark.parametrize("reset", ["return 1, 2, 3", "return ()", "return 'x', 'y'", "return None"])
def test_resets_that_cannot_be_read(reset: str) -> None:
    with session(stepping("pass", reset=reset)) as played, pytest.raises(ProgramError, match=r"must (return|be)"):
        played.reset(played.open(), 0)


@pytest.mark.parametrize(
    ("result", "expected", "adapter"),
    [
        ("'x', 0.5, True, {}", ("x", 0.5, True, False, {}), "four_tuple_step"),
        ("'x', 0.5, True, {'TimeLimit.truncated': True}", ("x", 0.5, False, True, {"TimeLimit.truncated": True}),
         "four_tuple_step"),
        ("'x', 0.5, False, {'TimeLimit.truncated': True}", ("x", 0.5, False, True, {"TimeLimit.truncated": True}),
         "four_tuple_step"),
        ("'x', 0.5, True", ("x", 0.5, True, False, {}), "three_tuple_step"),
        ("'x', 7, 0.5, True, False", ("x", 0.5, True, False, {"won": False}), "text_game_step"),
        ("['x', 0.5, True, False, {}]", ("x", 0.5, True, False, {}), None),
        ("'x', 1, True, False, None", ("x", 1.0, True, False, {}), None),
        ("'x', np.float32(0.5), np.bool_(True), np.bool_(False), {'n': np.int64(3)}", ("x", 0.5, True, False, {"n": 3}),
         "numpy_scalar"),
        ("'x', np.array([0.5]), np.array([True]), False, {}", ("x", 0.5, True, False, {}), "numpy_scalar"),
        ("'x', np.array(0.5), False, False, {}", ("x", 0.5, False, False, {}), "numpy_scalar"),
        ("'x', 0.5, 1, 0, {}", ("x", 0.5, True, False, {}), "integer_flag"),
        ("{'a': 1}, 0.5, False, False, {}", ('{"a": 1}', 0.5, False, False, {}), "dict_observation"),
        ("'\\ud800', 0.5, False, False, {}", ("\ufffd", 0.5, False, False, {}), "lone_surrogates"),
    ],
)  # fmt: skip
def test_steps(result: str, expected: tuple[object, ...], adapter: str | None) -> None:
    what = stepping(f"return {result}", before="import numpy as np" if "np." in result else "")
    _, second, adapters, _ = play(what)
    assert second == expected
    assert adapters == ({adapter} if adapter else set())


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("None", "got NoneType"), ("'x'", "got str: 'x'"), ("'x', 1.0", "a tuple of 2"), ("(1,) * 6", "a tuple of 6"),
        ("None, 0.0, False, False, {}", "observation must be text, got NoneType"),
        ("'x', None, False, False, {}", "reward must be a number"),
        ("'x', 0.0, None, False, {}", "terminated must be True or False"),
        ("'x', 0.0, False, 'no', {}", "truncated must be True or False"),
        ("'x', 0.0, False, False, [1]", "info must be a dict, got list"),
        ("'x', float('nan'), False, False, {}", "finite"),
        ("'x' * 200_000, 0.0, False, False, {}", "200000 characters"),
    ],
)  # fmt: skip
def test_steps_that_cannot_be_read(result: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        play(stepping(f"return {result}"))


BODY = """
    def reset(self{reset}):
        return f"ready {{getattr(self, 'got', None)!r}}", {{}}
    def step(self, action):
        return "x", 0.0, False, False, {{}}
"""


@pytest.mark.parametrize(
    ("init", "given", "got", "adapter"),
    [
        ("self, max_turns=9: int", {}, 9, None),
        ("self, max_turns", {}, 20, "required_arguments"),
        ("self, max_turns", {"max_turns": 7}, 7, None),
        ("self, seed", {}, 0, "required_arguments"),
        ("self, words: list", {}, [], "required_arguments"),
        ("self, words: 'str'", {}, "", "required_arguments"),
        ("self, count: int", {}, 5, "required_arguments"),
        ("self, thing", {}, None, "required_arguments"),
        ("self, thing, /", {}, None, "required_arguments"),
        ("self, *, thing: bool", {}, False, "required_arguments"),
        ("self, got=1", {"nonsense": 2}, 1, "dropped_arguments"),
        ("self, got=1, **more", {"nonsense": 2}, 1, None),
    ],
)
def test_constructors(init: str, given: dict[str, object], got: object, adapter: str | None) -> None:
    name = re.split(r"[,:=]", init.replace("self, ", "").replace("*, ", ""))[0].strip()
    init = init.replace("max_turns=9: int", "max_turns: int = 9")
    source = f"class XEnv:\n    def __init__({init}):\n        self.got = {name}\n" + BODY.format(reset=", seed=None")
    what = program(source, kwargs=given)
    first, _, adapters, _ = play(what)
    assert first.observation == f"ready {got!r}"
    assert adapters == ({adapter} if adapter else set())


@pytest.mark.parametrize("reset", ["", ", options=None", ", number=0"])
def test_resets_without_a_seed_are_seeded_all_the_same(reset: str) -> None:
    source = f"import random\nclass XEnv:\n    def reset(self{reset}):\n        return str(random.random()), {{}}\n" + (
        "    def step(self, action):\n        return 'x', 0.0, False, False, {}\n"
    )
    first, _, adapters, _ = play(program(source))
    again, _, _, _ = play(program(source))
    assert first == again
    assert adapters == {"reset_without_seed"}


@pytest.mark.parametrize("reset", [", *, seed=None, options=None", ", seed", ", seed: int | None = None", ", **kwargs"])
def test_resets_with_a_seed(reset: str) -> None:
    source = f"class XEnv:\n    def reset(self{reset}):\n        return str(locals()), {{}}\n" + (
        "    def step(self, action):\n        return 'x', 0.0, False, False, {}\n"
    )
    first, _, adapters, _ = play(program(source))
    assert "'seed': 3" in first.observation
    assert adapters == set()


def test_a_subclass_of_gymnasiums_env() -> None:
    source = """
    import gymnasium as gym
    import numpy as np
    from gymnasium import spaces
    class XEnv(gym.Env):
        metadata = {"render_modes": []}
        def __init__(self, render_mode=None):
            self.action_space = spaces.Discrete(3, start=1)
            self.observation_space = spaces.Box(0, 1, (2,))
        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.draw = self.np_random.random()
            return np.array([0.5, 0.25], dtype=np.float32), {"draw": self.draw}
        def step(self, action):
            assert isinstance(action, int)
            return np.array([action, 0]), np.float64(1), np.bool_(False), False, {}
    """
    first, second, adapters, base = play(program(source), "I take 2, please")
    assert (first.observation, second.observation, second.reward, base) == ("[0.5, 0.25]", "[2, 0]", 1.0, "gymnasium")
    assert adapters == {"array_observation", "numpy_scalar", "discrete_action"}
    assert play(program(source))[0] == first
    _, wrong, _, _ = play(program(source), "0")
    assert wrong.observation == "Actions are the whole numbers from 1 to 3."
    with session(program(source)) as played:
        slot, other = played.open(), played.open()
        assert played.reset(slot, 1).info != played.reset(other, 2).info


@pytest.mark.parametrize("line", ["from gem.core import Env", "import gem; Env = gem.Env", "from gem import Env"])
def test_a_subclass_of_gems_env(line: str) -> None:
    source = f"""
    import random
    {line}
    class XEnv(Env):
        def __init__(self, **_):
            super().__init__()
        def reset(self, seed=None):
            super().reset(seed)
            return str(random.random()), {{}}
        def step(self, action):
            return "x", 0.0, True, False, {{}}
    """
    first, second, adapters, base = play(program(source))
    assert (second.terminated, adapters, base) == (True, set(), "gem")
    assert play(program(source))[0] == first


def test_classes_may_have_any_name() -> None:
    source = "class Labyrinth:\n" + BODY.format(reset=", seed=None")
    with session(program(source, class_name="Labyrinth")) as played:
        played.reset(played.open(), 0)
        assert played.report.class_name == "Labyrinth"


@pytest.mark.parametrize(
    ("line", "turns"),
    [("max_turns = 7", 7), ("_max_steps = 8", 8), ("max_steps = 0", None), ("max_turns = True", None), ("pass", None)],
)
def test_the_turn_limit_that_a_program_keeps(line: str, turns: int | None) -> None:
    with session(f"class XEnv:\n    {line}\n" + BODY.format(reset=", seed=None")) as played:
        assert played.report.max_turns == turns


@pytest.mark.parametrize(
    ("solution", "found"), [("return 'a'", "a"), ("return ['a', 'b']", "a\nb"), ("return None", None), ("", None)]
)
def test_solutions(solution: str, found: str | None) -> None:
    method = f"    def solution(self):\n        {solution}\n" if solution else ""
    with session("class XEnv:\n" + BODY.format(reset=", seed=None") + method) as played:
        slot = played.open()
        played.reset(slot, 0)
        assert played.solution(slot) == found
        assert played.report.has_solution is bool(solution)


@pytest.mark.parametrize(
    ("solution", "message"), [("return 5", "must return text, got int"), ("1 / 0", "ZeroDivision")]
)
def test_solutions_that_fail(solution: str, message: str) -> None:
    method = f"    def solution(self):\n        {solution}\n"
    with session("class XEnv:\n" + BODY.format(reset=", seed=None") + method) as played:
        slot = played.open()
        played.reset(slot, 0)
        with pytest.raises(ProgramError, match=message):
            played.solution(slot)
        assert played.step(slot, "x").observation == "x"


def test_every_name_that_is_noted_is_known() -> None:
    folder = Path(adapt.__file__).parent
    noted = set()
    for name in ("adapt.py", "conversion.py", "harness.py"):
        for call in re.findall(r"note\((.*)\)\n", (folder / name).read_text()):
            noted |= set(re.findall(r'"([a-z_]+)"(?! ?else| else)', call)) - {"numpy"}
    assert noted == ADAPTERS
