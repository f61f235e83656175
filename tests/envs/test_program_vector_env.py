from __future__ import annotations

import copy
import json
import os
import pickle
import signal

import gymnasium
import numpy as np
import pytest
from conftest import COUNTER, make_program
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import spade_gym
from spade_gym.envs import lanes
from spade_gym.errors import ProgramError
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Limits

FAST = Limits(step_seconds=0.3)
OTHER = make_program(COUNTER.replace("You win.", "The other program says: you win."), name="Other")
SCRIPT = ["a", "info", "win", "b", "lose", "c", "d", "e", "f", "g", "h", "i"]


MORE_KEYS = ("final_info", "_final_info", "program_info", "_program_info", "commands", "_commands")


def actions_at(turn: int, num_envs: int) -> list[str]:
    """Different scripts side by side, so that episodes end at different times."""
    return [SCRIPT[(turn + 3 * index) % len(SCRIPT)] for index in range(num_envs)]


def equal(left: object, right: object) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.shape == right.shape and all(equal(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("programs", [[make_program()], [make_program(), OTHER]])
def test_batched_play_is_exactly_single_play(mode: AutoresetMode, programs: list[Program]) -> None:
    n = 6
    batched = spade_gym.ProgramVectorEnv(n, program=programs, autoreset_mode=mode)
    singles = [lambda index=index: spade_gym.ProgramEnv(programs[index % len(programs)]) for index in range(n)]
    reference = SyncVectorEnv(singles, autoreset_mode=mode)
    assert equal(batched.reset(seed=11)[0], reference.reset(seed=11)[0])
    for turn in range(30):
        got = batched.step(actions_at(turn, n))
        expected = reference.step(tuple(actions_at(turn, n)))
        assert all(equal(a, b) for a, b in zip(got[:4], expected[:4], strict=True)), turn
        for key in (
            "is_success",
            "fault",
            "final_obs",
            "instance_seed",
            "digest",
            "_final_obs",
            "_is_success",
            *MORE_KEYS,
        ):
            assert equal(got[4].get(key), expected[4].get(key)), (turn, key)
    batched.close()
    reference.close()


def test_one_seed_gives_every_environment_a_stream_of_its_own() -> None:
    vector = spade_gym.ProgramVectorEnv(4, program=make_program())
    first = vector.reset(seed=1)[0]
    assert [text.split(" draw")[0] for text in first] == ["seed 1", "seed 2", "seed 3", "seed 4"]
    again = vector.reset(seed=[1, 2, 3, 4])[0]
    assert first == again
    later = vector.reset()[0]
    assert len(set(later) | set(first)) == 8
    vector.close()


def test_make_vec_gives_the_batched_environment_by_default() -> None:
    vector = gymnasium.make_vec("spade/OddCoin-v0", num_envs=3)
    assert isinstance(vector.unwrapped, spade_gym.ProgramVectorEnv)
    observations, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(observations)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    vector.close()


def test_make_vec_mixes_programs() -> None:
    vector = gymnasium.make_vec("spade/Program-v0", num_envs=4, program=["OddCoin", "ThreeJugs"])
    assert [program.name for program in vector.unwrapped.programs] == ["OddCoin", "ThreeJugs", "OddCoin", "ThreeJugs"]
    first = vector.reset(seed=0)[0]
    assert first[0].startswith("There are 12 coins")
    assert not first[1].startswith("There are 12 coins")
    vector.close()


def test_several_workers_play_the_same_trajectories() -> None:
    one = spade_gym.ProgramVectorEnv(5, program=make_program())
    two = spade_gym.ProgramVectorEnv(5, program=make_program(), num_workers=2)
    assert one.reset(seed=3)[0] == two.reset(seed=3)[0]
    for turn in range(10):
        left, right = one.step(actions_at(turn, 5)), two.step(actions_at(turn, 5))
        assert left[0] == right[0]
        assert all(equal(a, b) for a, b in zip(left[1:4], right[1:4], strict=True))
    one.close()
    two.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_slow_program_gets_a_second_worker_and_plays_on_as_before(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    calm = spade_gym.ProgramVectorEnv(9, program=make_program(), num_workers=1, autoreset_mode=mode)
    spread = spade_gym.ProgramVectorEnv(9, program=make_program(), autoreset_mode=mode)
    assert calm.reset(seed=3)[0] == spread.reset(seed=3)[0]
    for turn in range(20):
        left, right = calm.step(actions_at(turn, 9)), spread.step(actions_at(turn, 9))
        assert left[0] == right[0]
        assert all(equal(a, b) for a, b in zip(left[1:4], right[1:4], strict=True))
    assert [len(vector._lanes) for vector in (calm, spread)] == [1, 2]
    assert sorted(index for lane in spread._lanes for index in lane.indices) == list(range(9))
    calm.close()
    spread.close()


def test_a_program_that_cannot_be_replayed_keeps_its_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    source = (
        "import decimal\n\nclass OnceEnv:\n    def reset(self, seed=None):\n        return 'a', {}\n"
        "    def step(self, action):\n        if action == 'mark':\n            decimal.marked = True\n"
        "        if action == 'need' and not hasattr(decimal, 'marked'):\n            raise ValueError('unmarked')\n"
        "        return 'b', 0.0, False, False, {}\n"
    )
    program = Program(source, Manifest(name="Once", setting="multi_turn", class_name="OnceEnv"))
    vector = spade_gym.ProgramVectorEnv(8, program=program)
    vector.reset(seed=0)
    vector.step(["mark"] + ["wait"] * 7)
    for _ in range(6):
        infos = vector.step(["need"] * 8)[-1]
        assert infos["fault"].tolist() == [""] * 8
    assert len(vector._lanes) == 1
    vector.close()


@pytest.mark.parametrize(("action", "reason"), [("raise", "error"), ("hang", "timeout"), ("exit", "crash")])
def test_one_failing_instance_costs_its_siblings_nothing(action: str, reason: str) -> None:
    vector = spade_gym.ProgramVectorEnv(3, program=make_program(), limits=FAST)
    calm = spade_gym.ProgramVectorEnv(3, program=make_program(), limits=FAST)
    for env in (vector, calm):
        env.reset(seed=5)
        env.step(["a", "a", "a"])
    observations, rewards, terminated, truncated, infos = vector.step(["b", action, "c"])
    expected = calm.step(["b", "b", "c"])
    assert (observations[0], observations[2]) == (expected[0][0], expected[0][2])
    assert rewards.tolist() == [0.125, 0.0, 0.125]
    assert terminated.tolist() == [False, False, False]
    assert truncated.tolist() == [False, True, False]
    assert infos["fault"][1].startswith(f"{reason}: ")
    assert [infos["fault"][0], infos["fault"][2]] == ["", ""]
    after, expected_after = vector.step(["d", "ignored", "d"]), calm.step(["d", "d", "d"])
    assert (after[0][0], after[0][2]) == (expected_after[0][0], expected_after[0][2])
    assert after[0][1].startswith("seed ")
    vector.close()
    calm.close()


def test_a_program_that_fails_in_an_automatic_reset_does_not_end_the_run() -> None:
    source = COUNTER.replace(
        "self.turn = 0", "self.turn = 0\n        if seed % 2:\n            raise ValueError('odd')"
    )
    vector = spade_gym.ProgramVectorEnv(2, program=make_program(source), autoreset_mode="SameStep")
    vector.reset(seed=[2, 4])
    faults = 0
    for _ in range(30):
        _, rewards, terminated, truncated, infos = vector.step(["win", "win"])
        for index in range(2):
            if infos["final_info"]["fault"][index]:
                faults += 1
                assert truncated[index]
                assert rewards[index] == 0.0
            else:
                assert terminated[index]
    assert 5 < faults < 55
    with pytest.raises(ProgramError, match="odd"):
        vector.reset(seed=1)
    vector.close()


def test_disabled_autoreset_waits_for_a_masked_reset() -> None:
    vector = spade_gym.ProgramVectorEnv(2, program=make_program(), autoreset_mode=AutoresetMode.DISABLED)
    vector.reset(seed=1)
    terminated = vector.step(["win", "a"])[2]
    assert terminated.tolist() == [True, False]
    with pytest.raises(ResetNeeded, match=r"environments \[0\] are over"):
        vector.step(["a", "a"])
    observations, infos = vector.reset(options={"reset_mask": np.array([True, False])})
    assert observations[0].startswith("seed ")
    assert observations[1].startswith("a 1 ")
    assert infos["_instance_seed"].tolist() == [True, False]
    assert vector.step(["a", "a"])[0][1].startswith("a 2 ")
    for mask in (np.array([0, 1]), np.array([True]), np.array([False, False])):
        with pytest.raises(ValueError, match="reset_mask must be a bool array"):
            vector.reset(options={"reset_mask": mask})
    vector.close()


def test_bad_batches_are_refused() -> None:
    vector = spade_gym.ProgramVectorEnv(2, program=make_program(), limits={"action_chars": 10})
    with pytest.raises(ResetNeeded):
        vector.step(["a", "a"])
    vector.reset(seed=1)
    with pytest.raises(ValueError, match="needs 2 actions"):
        vector.step(["a"])
    with pytest.raises(TypeError, match="an action must be text"):
        vector.step(["a", 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="at most 10"):
        vector.step(["a", "x" * 11])
    with pytest.raises(ValueError, match="lone surrogates"):
        vector.step(["a", "\ud800"])
    assert vector.step(["é" * 10, "x" * 10])[0][0].startswith("éééééééééé 1")
    with pytest.raises(ValueError, match="needs 2 entries"):
        vector.reset(seed=[1, 2, 3])
    with pytest.raises(TypeError, match="seed must be a whole number"):
        vector.reset(seed=[True, 1])
    vector.close()


def test_hints_hold_for_automatic_resets_when_set_at_construction() -> None:
    vector = spade_gym.ProgramVectorEnv(2, program=make_program(), hint=True, autoreset_mode="SameStep")
    assert all(text.endswith("HINT: Say win.") for text in vector.reset(seed=1)[0])
    assert all(text.endswith("HINT: Say win.") for text in vector.step(["win", "win"])[0])
    assert not any("HINT" in text for text in vector.reset(seed=1, options={"hint": False})[0])
    vector.close()


def test_observations_of_earlier_steps_are_not_overwritten() -> None:
    vector = spade_gym.ProgramVectorEnv(2, program=make_program())
    first, _ = vector.reset(seed=1)
    kept = tuple(first)
    results = [vector.step(["a", "b"]) for _ in range(3)]
    assert first == kept
    assert [result[0][0].split()[1] for result in results] == ["1", "2", "3"]
    assert results[0][1] is not results[1][1]
    vector.close()


def test_the_turn_limit_truncates_in_a_batch_too() -> None:
    stubborn = make_program(COUNTER.replace("= max_turns", "= 10**9"))
    vector = spade_gym.ProgramVectorEnv(2, program=stubborn, limits={"turns": 3})
    vector.reset(seed=1)
    assert [vector.step(["a", "a"])[3].tolist() for _ in range(3)] == [[False] * 2, [False] * 2, [True] * 2]
    vector.close()


def test_gymnasiums_own_vector_environments_carry_texts() -> None:
    def make() -> spade_gym.ProgramEnv:
        return spade_gym.ProgramEnv("OddCoin")

    for vector in (SyncVectorEnv([make, make]), AsyncVectorEnv([make, make], shared_memory=False)):
        observations = vector.reset(seed=0)[0]
        assert all(text.startswith("There are 12 coins") for text in observations)
        vector.step(("\\boxed{answer 1 heavy}", "x"))
        vector.close()
    with pytest.raises(ValueError, match="shared_memory=True"):
        AsyncVectorEnv([make, make])


def test_rendering_a_batch() -> None:
    vector = spade_gym.ProgramVectorEnv(2, program=make_program(), render_mode="ansi")
    vector.reset(seed=1)
    vector.step(["hello", "there"])
    frames = vector.render()
    assert frames is not None
    assert "> hello" in frames[0]
    assert "> there" in frames[1]
    vector.close()


def test_copies_of_a_batch_go_on_where_the_original_was() -> None:
    vector = spade_gym.ProgramVectorEnv(3, program=[make_program(), OTHER])
    vector.reset(seed=1)
    vector.step(["a", "b", "win"])
    for copy_of in (copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))):
        clone = copy_of(vector)
        twin, original = clone.step(["c", "d", "e"]), vector.step(["c", "d", "e"])
        assert twin[0] == original[0]
        assert all(equal(left, right) for left, right in zip(twin[1:4], original[1:4], strict=True))
        clone.close()
    vector.close()


def test_arguments_that_would_be_lost_are_refused() -> None:
    with pytest.raises(ValueError, match="at most num_envs=1, got 2"):
        spade_gym.ProgramVectorEnv(1, program=[make_program(), OTHER])
    with pytest.raises(TypeError, match="hint must be True or False"):
        spade_gym.ProgramVectorEnv(1, program=make_program(), hint="go there")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="hint must be True or False"):
        spade_gym.ProgramEnv(make_program(), hint="go there")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="given as a Program, a path, a name or a digest, got list"):
        spade_gym.ProgramEnv([make_program()])  # type: ignore[arg-type]
    vector = spade_gym.ProgramVectorEnv(2, program=make_program())
    vector.reset(seed=1)
    for actions, found in (("xy", "a str"), (None, "a NoneType"), ({"a": 1, "b": 2}, "a dict")):
        with pytest.raises(ValueError, match=f"got {found}"):
            vector.step(actions)  # type: ignore[arg-type]
    assert vector.step(np.array(["x", "y"]))[0][1].startswith("y 1")
    with pytest.raises(ValueError, match="unknown reset option 'action_history'"):
        vector.reset(options={"action_history": []})
    with pytest.raises(ValueError, match="'NextStep', 'SameStep', 'Disabled', got 'foo'"):
        spade_gym.ProgramVectorEnv(2, program=make_program(), autoreset_mode="foo")
    for count in ("4", 2.5, True, None):
        with pytest.raises(TypeError, match="num_envs must be a whole number"):
            spade_gym.ProgramVectorEnv(count, program=make_program())  # type: ignore[arg-type]
    with pytest.raises(gymnasium.error.Error, match="seed must be from 0"):
        vector.reset(seed=2**63 - 1)
    vector.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="was closed"):
        vector.step(["a", "b"])


INFOS = ["'a'", "[1, 2]", "None", "2.7", "{'a': 1}", "2 ** 70", "True", "[[1.0]] * (seed + 1)"]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("other", INFOS)
def test_infos_of_any_type_side_by_side_harm_nobody(other: str, mode: str) -> None:
    source = COUNTER.replace(
        'return "see info", 0.0, False, self.turn >= self.max_turns, {"commands": ["a", "b"], "n": self.turn}',
        f'seed = self.goal; return "", 0.0, self.turn == 2, False, {{"v": 1 if self.goal % 2 else {other}, "_v": 3}}',
    )
    vector = spade_gym.ProgramVectorEnv(6, program=make_program(source), autoreset_mode=mode)
    vector.reset(seed=0)
    for _ in range(4):
        infos = vector.step(["info"] * 6)[4]
    texts = infos["program_info"] if mode == "NextStep" else infos["final_info"]["program_info"]
    assert all(json.loads(text)["_v"] == 3 for text in texts if text is not None)
    vector.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_program_whose_tools_fail_after_a_reset_does_not_end_the_run(mode: str) -> None:
    source = """
class DeskEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        self.odd = seed % 2
        self._user_messages, self._message_criteria, self._tools = ["Go."], [lambda s: True], {}
        return "Go.", {}

    def step(self, action):
        return "done", 1.0, True, False, {}

    def tool_schemas(self):
        if self.odd:
            raise ValueError("no tools today")
        return []
"""
    program = make_program(source, class_name="DeskEnv", setting="tool_use")
    vector = spade_gym.ProgramVectorEnv(2, program=program, autoreset_mode=mode)
    vector.reset(seed=[0, 2])
    faults = 0
    for _ in range(24):
        infos = vector.step(["x", "x"])[4]
        told = infos["final_info"]["fault"] if mode == "SameStep" else infos["fault"]
        faults += sum("no tools today" in text for text in told if text)
    assert faults > 2
    vector.close()


def test_an_interrupted_batch_must_be_reset_and_then_goes_on() -> None:
    vector = spade_gym.ProgramVectorEnv(2, program=[make_program(), OTHER])
    first = vector.reset(seed=1)[0]

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            vector.step(["a", "hang"])
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ResetNeeded, match="interrupted"):
        vector.step(["a", "a"])
    assert vector.reset(seed=1)[0] == first
    assert vector.step(["a", "a"])[0][0].startswith("a 1")
    vector.close()
