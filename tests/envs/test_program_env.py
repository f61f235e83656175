from __future__ import annotations

import copy
import json
import pickle
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from conftest import COUNTER, make_program
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import spade_gym
from spade_gym.errors import ProgramError, SpadeError
from spade_gym.pool import registry
from spade_gym.sandbox.base import Limits

BUNDLED = sorted(program.name for program in registry())
FAST = Limits(step_seconds=0.3)


def play(env: gymnasium.Env[str, str], actions: list[str], seed: int | None = None) -> list[object]:
    transcript: list[object] = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        transcript.append((observation, reward, terminated, truncated))
    return transcript


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_program_passes_the_environment_checker_without_warnings(name: str) -> None:
    env = gymnasium.make(f"spade/{name}-v0")
    check_env(env.unwrapped)
    env.close()


def test_the_id_of_a_bundled_program_is_its_name() -> None:
    assert {f"spade/{name}-v0" for name in BUNDLED} <= set(gymnasium.registry)
    env = gymnasium.make("spade/OddCoin-v0")
    assert env.unwrapped.program.name == "OddCoin"
    env.close()


def test_a_spec_round_trips_through_json() -> None:
    env = gymnasium.make("spade/Program-v0", program="OddCoin", limits={"step_seconds": 2.0})
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(spec)
    assert play(again, ["\\boxed{answer 1 heavy}"], 7) == play(env, ["\\boxed{answer 1 heavy}"], 7)
    assert again.unwrapped.limits.step_seconds == 2.0
    env.close()
    again.close()


def test_module_prefix_registers_in_a_fresh_process() -> None:
    code = "import gymnasium as g; e = g.make('spade_gym:spade/OddCoin-v0'); print(len(e.reset(seed=1)[0])); e.close()"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) > 50


def test_a_program_is_found_by_digest_folder_file_and_reply(tmp_path) -> None:
    program = next(iter(registry()))
    reply = tmp_path / "reply.md"
    reply.write_text(f"Here you are.\n\n```python\n{COUNTER}\n```\n")
    python = tmp_path / "counter.py"
    python.write_text(COUNTER)
    pool = spade_gym.Pool(tmp_path / "pool")
    folder = pool.add(make_program())
    assert spade_gym.ProgramEnv(program.digest[:12]).program == program
    assert spade_gym.ProgramEnv(folder).program.digest == make_program().digest
    for path in (reply, python):
        env = spade_gym.ProgramEnv(path)
        assert play(env, ["win"], 1)[1] == ("You win.", 1.0, True, False)
        env.close()


def test_unknown_programs_are_refused_with_what_was_tried(tmp_path) -> None:
    with pytest.raises(SpadeError, match="OddCoin"):
        spade_gym.ProgramEnv("OddCoyn")
    with pytest.raises(SpadeError, match="no existing file or folder"):
        spade_gym.ProgramEnv(str(tmp_path / "nothing"))
    with pytest.raises(SpadeError, match="register_pool"):
        spade_gym.ProgramEnv("0123456789abcdef")


def test_a_reset_without_a_seed_goes_on_from_the_seeded_generator() -> None:
    env = spade_gym.ProgramEnv(make_program())
    first = [env.reset(seed=42)[0], env.reset()[0], env.reset()[0]]
    second = [env.reset(seed=42)[0], env.reset()[0], env.reset()[0]]
    env.close()
    assert first == second
    assert len(set(first)) == 3
    assert first[0].startswith("seed 42 ")


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), 3])
def test_whole_numbers_of_any_kind_are_seeds(seed: object) -> None:
    env = spade_gym.ProgramEnv(make_program())
    assert env.reset(seed=seed)[0].startswith("seed 3 ")  # type: ignore[arg-type]
    env.close()


@pytest.mark.parametrize("seed", [True, np.True_, 1.0, "1"])
def test_other_things_are_no_seeds(seed: object) -> None:
    env = spade_gym.ProgramEnv(make_program())
    with pytest.raises(TypeError, match="seed must be a whole number"):
        env.reset(seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "\n", "\\", "\\boxed{\\frac{1}{2}}", "🙂中\u200b", "a" * 50_000, "\x00\x1b[31m"])
def test_any_unicode_goes_in_and_out(text: str) -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    observation = env.step(text)[0]
    env.close()
    assert observation.startswith(f"{text} 1 0.")


@pytest.mark.parametrize(("action", "error"), [(7, TypeError), (None, TypeError), ("\ud800", ValueError)])
def test_actions_that_are_no_text_are_refused(action: object, error: type[Exception]) -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    with pytest.raises(error, match="action"):
        env.step(action)  # type: ignore[arg-type]
    env.close()


def test_long_actions_are_refused_with_the_limit() -> None:
    env = spade_gym.ProgramEnv(make_program(), limits={"action_chars": 10})
    env.reset(seed=1)
    with pytest.raises(ValueError, match="at most 10 characters"):
        env.step("x" * 11)
    env.close()


def test_stepping_before_a_reset_or_past_the_end_is_an_error() -> None:
    env = spade_gym.ProgramEnv(make_program())
    with pytest.raises(ResetNeeded):
        env.step("a")
    env.reset(seed=1)
    assert env.step("win")[4] == {"is_success": True, "fault": ""}
    with pytest.raises(ResetNeeded):
        env.step("a")
    env.close()


def test_a_lost_episode_is_no_success() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    assert env.step("lose")[2:] == (True, False, {"is_success": False, "fault": ""})
    env.close()


def test_max_turns_reaches_the_program_and_is_enforced() -> None:
    obeys = spade_gym.ProgramEnv(make_program(), max_turns=2)
    stubborn_source = COUNTER.replace("max_turns=6, **kwargs", "").replace("= max_turns", "= 10**9")
    stubborn = spade_gym.ProgramEnv(make_program(stubborn_source), max_turns=2)
    for env in (obeys, stubborn):
        env.reset(seed=1)
        assert env.step("a")[2:4] == (False, False)
        assert env.step("a")[2:4] == (False, True)
        env.close()
    assert "dropped_arguments" in stubborn.report.adapters
    stubborn.close()


@pytest.mark.parametrize(("action", "reason"), [("raise", "error"), ("hang", "timeout"), ("exit", "crash")])
def test_a_failing_program_truncates_its_episode_and_never_pays(action: str, reason: str) -> None:
    env = spade_gym.ProgramEnv(make_program(), limits=FAST)
    env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["fault"].startswith(f"{reason}: ")
    assert not info["is_success"]
    assert observation in env.observation_space
    assert env.reset(seed=1)[0].startswith("seed 1 ")
    env.close()


def test_a_program_that_fails_in_reset_raises_its_own_error() -> None:
    env = spade_gym.ProgramEnv(make_program(COUNTER.replace("self.turn = 0", "self.turn = 1 / 0")))
    with pytest.raises(ProgramError, match=r"ZeroDivisionError: division by zero \(line \d+ of the program\)"):
        env.reset(seed=1)
    env.close()


def test_hints_are_appended_on_request() -> None:
    plain = spade_gym.ProgramEnv(make_program())
    hinted = spade_gym.ProgramEnv(make_program(), hint=True)
    bare = plain.reset(seed=5)[0]
    assert plain.reset(seed=5, options={"hint": True})[0] == f"{bare}\n\nHINT: Say win."
    assert hinted.reset(seed=5)[0] == f"{bare}\n\nHINT: Say win."
    assert hinted.reset(seed=5, options={"hint": False})[0] == bare
    with pytest.raises(ValueError, match="has no hint"):
        spade_gym.ProgramEnv(make_program(hint="")).reset(seed=5, options={"hint": True})
    with pytest.raises(ValueError, match="unknown reset option 'hnit'"):
        plain.reset(options={"hnit": True})
    plain.close()
    hinted.close()


def test_an_action_history_is_played_again() -> None:
    env = spade_gym.ProgramEnv(make_program())
    transcript = play(env, ["a", "b"], 3)
    history, seed = env.action_history, env.instance_seed
    assert history == ("a", "b")
    observation, info = env.reset(seed=seed, options={"action_history": history})
    assert observation == transcript[-1][0]  # type: ignore[index]
    assert info["fault"] == ""
    assert info["digest"] == env.program.digest
    assert info["instance_seed"] == seed
    env.close()


def test_save_points_restore_here_and_in_another_environment() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=3)
    env.step("a")
    point = env.snapshot()
    expected = [env.step("b"), env.step("win")]
    env.restore(point)
    assert [env.step("b"), env.step("win")] == expected
    other = spade_gym.ProgramEnv(make_program())
    other.restore(pickle.loads(pickle.dumps(point)))
    assert [other.step("b"), other.step("win")] == expected
    with pytest.raises(ValueError, match="belongs to the program"):
        spade_gym.ProgramEnv("OddCoin").restore(point)
    env.close()
    other.close()


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_where_the_original_was(clone) -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=3)
    env.step("a")
    twin = clone(env)
    assert twin.step("b") == env.step("b")
    assert twin.reset()[0] == env.reset()[0]
    env.close()
    twin.close()


def test_an_abandoned_environment_leaves_no_process() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    session = env._session
    assert session is not None
    watch = session.death_watch()
    del env, session
    assert watch.wait(5.0)
    watch.close()


def test_rendering_shows_the_turn_and_no_control_characters(capsys) -> None:
    ansi = spade_gym.ProgramEnv(make_program(), render_mode="ansi")
    ansi.reset(seed=1)
    ansi.step("\x1b[2Jhello")
    text = ansi.render()
    assert text is not None
    assert "turn 1 of at most 6" in text
    assert "hello 1" in text
    assert "\x1b" not in text
    human = spade_gym.ProgramEnv(make_program(), render_mode="human")
    human.reset(seed=1)
    human.step("hello")
    assert "hello 1" in capsys.readouterr().out
    ansi.close()
    human.close()
    with pytest.raises(ValueError, match="render_mode must be"):
        spade_gym.ProgramEnv(make_program(), render_mode="rgb_array")


def test_info_of_a_program_is_passed_on_under_its_own_key() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    info = env.step("info")[4]
    assert info["commands"] == ["a", "b"]
    assert json.loads(info["program_info"]) == {"commands": ["a", "b"], "n": 1}
    env.close()


def test_the_last_reward_rule_pays_only_the_terminating_step() -> None:
    env = spade_gym.ProgramEnv(make_program(reward="last"))
    env.reset(seed=1)
    assert env.step("a")[1] == 0.0
    assert env.step("win")[1] == 1.0
    env.close()


def test_commands_come_from_the_manifest_or_the_first_observation() -> None:
    declared = spade_gym.ProgramEnv(make_program(commands=("go {north|south}", "take {1..2}")))
    assert declared.commands == ("go north", "go south", "take 1", "take 2")
    announcing = spade_gym.ProgramEnv(
        make_program(
            COUNTER.replace('f"seed {seed} draw', r'f"Say \\boxed{{red}} or \\boxed{{blue}}. seed {seed} draw')
        )
    )
    announcing.reset(seed=1)
    assert set(announcing.commands) == {"red", "blue"}
    announcing.close()


def test_the_solution_of_an_instance_leaves_it_as_it_is() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    expected = play(env, ["a"], 1)
    env.reset(seed=1)
    assert env.solution() == "win"
    assert env.step("a")[0] == expected[1][0]  # type: ignore[index]
    env.close()


def test_observations_of_tool_use_programs_come_with_schemas() -> None:
    env = gymnasium.make("spade/CartwheelOrders-v0")
    _, info = env.reset(seed=1)
    tools = json.loads(info["tools"])
    assert {tool["function"]["name"] for tool in tools} >= {"get_order", "cancel_order"}
    for line in env.unwrapped.solution().splitlines():
        _, _, terminated, _, info = env.step(line)
    assert terminated
    assert info["is_success"]
    env.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"max_turns": "5"}, "max_turns must be a whole number"),
        ({"max_turns": 2.5}, "max_turns must be a whole number"),
        ({"max_turns": 0}, "max_turns must be from 1"),
        ({"max_turns": 10**30}, "max_turns must be from 1"),
        ({"limits": 5}, "limits must be Limits or a mapping"),
        ({"limits": {"nope": 1}}, "unknown limit 'nope'"),
        ({"hint": "go"}, "hint must be True or False"),
        ({"isolation": 9}, "isolation must be one of"),
        ({"render_mode": "rgb"}, "render_mode must be"),
    ],
)
def test_constructor_arguments_of_the_wrong_kind_are_named(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        spade_gym.ProgramEnv(make_program(), **arguments)  # type: ignore[arg-type]
    if "render_mode" not in arguments:
        with pytest.raises((TypeError, ValueError), match=complaint):
            spade_gym.ProgramVectorEnv(2, program=make_program(), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (5, "options must be a mapping"),
        ({"action_history": "abc"}, "action_history must be a sequence of texts"),
        ({"action_history": 5}, "action_history must be a sequence of texts"),
        ({"action_history": ["win", "a"]}, "goes on after the episode's end"),
        ({"hint": "yes"}, "hint must be True or False"),
    ],
)
def test_reset_options_of_the_wrong_kind_are_named(options: object, complaint: str) -> None:
    env = spade_gym.ProgramEnv(make_program())
    with pytest.raises((TypeError, ValueError), match=complaint):
        env.reset(seed=1, options=options)  # type: ignore[arg-type]
    env.close()


def test_an_interrupted_step_counts_as_not_played() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    expected = play(env, ["a", "b"], 1)
    env.reset(seed=1)
    env.step("a")

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            env.step("hang")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert env.action_history == ("a",)
    assert env.step("b")[0] == expected[2][0]  # type: ignore[index]
    env.close()


def test_numpy_texts_are_actions() -> None:
    env = spade_gym.ProgramEnv(make_program())
    env.reset(seed=1)
    assert env.step(np.str_("abc"))[0].startswith("abc 1")
    env.close()


def test_commands_follow_a_restored_save_point() -> None:
    source = COUNTER.replace('f"seed {seed} draw', r'f"Say \\boxed{{go {seed}}}. {seed} draw')
    env = spade_gym.ProgramEnv(make_program(source))
    env.reset(seed=1)
    point = env.snapshot()
    env.reset(seed=2)
    assert env.commands == ("go 2",)
    env.restore(point)
    assert env.commands == ("go 1",)
    with pytest.raises(TypeError, match="restore takes what snapshot"):
        env.restore(5)  # type: ignore[arg-type]
    env.close()
