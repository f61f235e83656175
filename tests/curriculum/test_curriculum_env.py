from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from conftest import make_program
from families import Fixed, Walk, lengths, walk, walks
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env

from spade_gym.curriculum.client import Client
from spade_gym.curriculum.curriculum_env import CurriculumEnv, outcome_of
from spade_gym.curriculum.service import CurriculumServer, ServiceError
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.curriculum.task_environments import SpaceMismatch
from spade_gym.errors import ProgramFault, SpadeError
from spade_gym.pool import Pool
from spade_gym.programs.program import Program

L2: dict[str, Any] = {"limits": {"step_seconds": 0.3}}


def finish(env: gymnasium.Env[Any, Any], action: Any = 1) -> dict[str, Any]:
    while True:
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info


def statuses(curriculum: Fixed) -> list[str]:
    return [outcome.status for outcome in curriculum.told]


# ---- episodes


def test_an_episode_is_told_when_it_ends() -> None:
    curriculum = Fixed(*lengths(2, 4))
    env = CurriculumEnv(walk, curriculum)
    observation, info = env.reset()
    assert observation.tolist() == [50.0, 50.0]
    assert info == {
        "length": 2, "task_id": curriculum.tickets[0].task.id, "ticket": 0, "arm": "plain", "train": True,
        "instance_seed": 5,
    }  # fmt: skip
    env.step(1)
    assert curriculum.told == []
    info = env.step(0)[4]
    assert curriculum.told == [Outcome(0, 5, total=0.5, won=False, length=2)]
    assert info["ticket"] == 0
    assert env.reset()[1]["train"] is False
    finish(env)
    assert curriculum.told[1] == Outcome(1, 5, total=1.0, won=True, length=4)
    with pytest.raises(ResetNeeded):
        env.step(1)


def test_resets_without_steps_start_the_same_play() -> None:
    curriculum = Fixed(*lengths(2, 4))
    env = CurriculumEnv(walk, curriculum)
    first = env.reset(seed=1)
    again = env.reset(seed=2)
    assert first[0].tolist() == again[0].tolist()
    assert (curriculum.asked, curriculum.told) == (1, [])


def test_a_reset_in_mid_episode_and_close_give_up_the_play() -> None:
    curriculum = Fixed(*lengths(3))
    env = CurriculumEnv(walk, curriculum)
    env.reset()
    env.step(1)
    env.reset()
    env.close()
    env.close()
    assert curriculum.told == [Outcome(0, 5, length=1, status="aborted"), Outcome(0, 5, status="aborted")]


def test_the_seeds_of_a_group_are_played_one_after_another() -> None:
    curriculum = Fixed(*lengths(1), seeds=(5, 6, 7))
    env = CurriculumEnv(walk, curriculum)
    seeds = []
    for _ in range(4):
        seeds.append(env.reset()[1]["instance_seed"])
        finish(env)
    assert seeds == [5, 6, 7, 5]
    assert curriculum.asked == 2
    env.close()
    assert [(outcome.seed, outcome.status) for outcome in curriculum.told[4:]] == [(6, "aborted"), (7, "aborted")]


def test_a_users_seed_seeds_the_actor_and_not_the_instance() -> None:
    env = CurriculumEnv(walk, Fixed(*lengths(1)))
    assert env.reset(seed=99)[1]["instance_seed"] == 5
    expected = np.random.default_rng(99).random()
    assert env.np_random.random() == expected


def test_the_environment_checker_is_content() -> None:
    env = CurriculumEnv("FrozenLake-v1", Fixed(Task("make", {"is_slippery": False})))
    check_env(env, skip_render_check=True)
    env.close()


# ---- kinds of tasks


def test_make_tasks_have_environments_of_their_own_and_the_last_are_kept() -> None:
    made: list[Walk] = []

    def make(**arguments: Any) -> Walk:
        made.append(Walk(**arguments))
        return made[-1]

    env = CurriculumEnv(make, Fixed(*lengths(1, 2, 3)), num_kept=2)
    for _ in range(6):
        env.reset()
        finish(env)
    assert [item.length for item in made[1:]] == [1, 2, 3, 1, 2, 3]
    assert [item.closed for item in made[:-2]] == [True] * 5
    env.close()
    assert all(item.closed for item in made)


def test_a_gymnasium_id_takes_make_tasks() -> None:
    env = CurriculumEnv("CartPole-v1", Fixed(Task("make", {"max_episode_steps": 3})), success=1.0)
    env.reset()
    with pytest.raises(ValueError, match=r"add up to 3, outside .* \[0, 1\]"):
        finish(env)
    env.close()


def test_reset_tasks_are_options_and_win_over_the_users() -> None:
    env = CurriculumEnv(walk, Fixed(*lengths(4, kind="reset")))
    assert env.reset(options={"length": 9, "other": 1})[1]["length"] == 4


def test_attribute_tasks_are_set_or_applied() -> None:
    env = CurriculumEnv(walk, Fixed(*lengths(4, kind="attribute")))
    assert env.reset()[1]["length"] == 4
    with pytest.raises(ValueError, match="attribute 'lenght', which Walk does not have"):
        CurriculumEnv(walk, Fixed(Task("attribute", {"lenght": 4}))).reset()

    def apply(inner: Any, task: Task) -> None:
        inner.unwrapped.length = task.value["difficulty"] + 1

    env = CurriculumEnv(walk, Fixed(Task("attribute", {"difficulty": 6})), apply=apply)
    assert env.reset()[1]["length"] == 7


def test_other_spaces_are_refused_with_both_named() -> None:
    curriculum = Fixed(Task("make", {"size": 3}))
    env = CurriculumEnv(walk, curriculum)
    with pytest.raises(SpaceMismatch, match=r"observation space Box\(.*\(3,\).*made for Box\(.*\(2,\)"):
        env.reset()
    assert statuses(curriculum) == ["env_error"]
    env = CurriculumEnv(walk, curriculum, example=Task("make", {"size": 3}))
    assert env.reset()[0].shape == (3,)


def test_spaces_that_cannot_be_known_need_an_example() -> None:
    def make(*, length: int) -> Walk:
        return Walk(length)

    with pytest.raises(ValueError, match="give `example`"):
        CurriculumEnv(make, Fixed(*lengths(2)))
    CurriculumEnv(make, Fixed(*lengths(2)), example=lengths(2)[0]).reset()
    with pytest.raises(ValueError, match="give `example`"):
        CurriculumEnv(None, Fixed(*lengths(2)), wrap=lambda env: env)
    with pytest.raises(ValueError, match="kind 'make' needs `env`"):
        CurriculumEnv(None, Fixed(*lengths(2))).reset()


@pytest.mark.parametrize("wrong", [7, Walk(), None])
def test_what_is_no_curriculum_or_environment_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        CurriculumEnv(walk, wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="a function that makes"):
            CurriculumEnv(wrong, Fixed(*lengths(1)))


def test_hints_need_texts() -> None:
    curriculum = Fixed(Task("reset", {"length": 2}, hint="Say 1."), arm="hint")
    with pytest.raises(ValueError, match="choose a curriculum without hint plays"):
        CurriculumEnv(walk, curriculum).reset()


# ---- outcomes


@pytest.mark.parametrize(
    ("success", "won"),
    [(None, False), (0.5, True), (0.6, False), (lambda info, total: total == 0.5 and info["arm"] == "plain", True)],
)
def test_what_a_win_is(success: float | Callable[..., bool] | None, won: bool) -> None:
    curriculum = Fixed(*lengths(2))
    env = CurriculumEnv(walk, curriculum, success=success)
    env.reset()
    env.step(0)
    env.step(1)
    assert curriculum.told[0].won is won


def test_an_exception_is_raised_and_told_as_the_environments_fault() -> None:
    curriculum = Fixed(*lengths(3))
    env = CurriculumEnv(walk, curriculum)
    env.reset()
    with pytest.raises(RuntimeError, match="stumbled"):
        env.step(2)
    env.close()
    env = CurriculumEnv(walk, Fixed(*lengths(13)))
    with pytest.raises(RuntimeError, match="13"):
        env.reset()
    assert statuses(curriculum) + statuses(env._plays.curriculum) == ["env_error", "env_error"]  # type: ignore[union-attr]


def test_a_reward_that_is_no_number_is_the_environments_fault() -> None:
    curriculum = Fixed(*lengths(1))
    env = CurriculumEnv(walk, curriculum)
    env.reset()
    env.step(4)
    assert statuses(curriculum) == ["env_error"]


def test_the_trainer_may_tell_itself_with_a_value() -> None:
    curriculum = Fixed(*lengths(1))
    env = CurriculumEnv(walk, curriculum, told_by="trainer")
    env.set_policy_version(3)
    env.reset()
    info = env.step(1)[4]
    assert curriculum.told == []
    assert outcome_of(info, value=0.25) == Outcome(0, 5, total=1.0, won=True, length=1, policy_version=3, value=0.25)
    env.close()
    assert curriculum.told == []


# ---- evaluation


def test_evaluation_never_tells() -> None:
    curriculum = Fixed(*lengths(2))
    env = CurriculumEnv(walk, curriculum, evaluation=True)
    env.reset()
    finish(env)
    env.reset()
    env.step(1)
    env.reset()
    env.close()
    assert curriculum.told == []


def test_evaluation_on_given_tasks_is_fixed_by_the_seed_and_takes_all_in_turn() -> None:
    def played(seed: int) -> list[tuple[str, int]]:
        env = CurriculumEnv(walk, lengths(1, 2, 3), evaluation=True)
        seen = []
        for index in range(6):
            info = env.reset(seed=seed if index == 0 else None)[1]
            seen.append((info["task_id"], info["instance_seed"]))
            assert info["train"] is False
            finish(env)
        return seen

    assert played(1) == played(1) != played(2)
    assert len({task for task, _ in played(1)[:3]}) == 3
    with pytest.raises(TypeError, match="evaluation=True"):
        CurriculumEnv(walk, lengths(1))


# ---- programs


def program_tasks(tmp_path: Path, *programs: Program, hint: str = "") -> list[Task]:
    pool = Pool(tmp_path / "pool")
    for program in programs:
        pool.add(program)
    return [Task("program", {"program": program.digest}, hint=hint) for program in programs]


def test_programs_are_played_and_their_faults_are_never_losses(tmp_path: Path, counter: Program) -> None:
    curriculum = Fixed(*program_tasks(tmp_path, counter))
    curriculum.return_range = (-1.0, 1.0)
    env = CurriculumEnv(None, curriculum, pool=tmp_path / "pool", program_options=L2)
    for action in ("win", "lose", "raise", "hang", "exit"):
        observation, info = env.reset()
        assert observation in env.observation_space
        assert (info["digest"], info["instance_seed"]) == (counter.digest, 5)
        env.step("x")
        info = env.step(action)[4]
        assert isinstance(info["fault"], str)
    env.close()
    assert statuses(curriculum) == ["ok", "ok", "env_error", "timeout", "env_error"]
    assert [(outcome.total, outcome.won) for outcome in curriculum.told[:2]] == [(1.0, True), (0.125, False)]
    assert not any(outcome.won for outcome in curriculum.told[2:])


def test_a_hint_play_shows_the_tasks_hint(tmp_path: Path, counter: Program) -> None:
    for hint, shown in (("", "Say win."), ("Say it loud.", "Say it loud.")):
        curriculum = Fixed(*program_tasks(tmp_path, counter, hint=hint), arm="hint")
        env = CurriculumEnv(None, curriculum, pool=tmp_path / "pool")
        assert env.reset()[0].endswith(f"\n\nHINT: {shown}")
        env.close()


BROKEN = """
class CounterEnv:
    def reset(self, seed=None):
        raise ValueError("not today")

    def step(self, action):
        return "", 0.0, True, False, {}
"""


def test_a_program_that_fails_in_its_reset_is_skipped(tmp_path: Path, counter: Program) -> None:
    broken = make_program(BROKEN)
    curriculum = Fixed(*program_tasks(tmp_path, broken, counter))
    env = CurriculumEnv(None, curriculum, pool=tmp_path / "pool")
    assert env.reset()[1]["ticket"] == 1
    assert statuses(curriculum) == ["env_error"]
    env.close()
    env = CurriculumEnv(None, Fixed(*program_tasks(tmp_path, broken)), pool=tmp_path / "pool")
    with pytest.raises(SpadeError, match="20 plays in a row failed") as caught:
        env.reset()
    assert isinstance(caught.value.__cause__, ProgramFault)
    env.close()


def test_an_unknown_program_is_reported_and_told(tmp_path: Path) -> None:
    curriculum = Fixed(Task("program", {"program": "0" * 64}), Task("program", {}))
    env = CurriculumEnv(None, curriculum)
    with pytest.raises(SpadeError, match="no program with the digest"):
        env.reset()
    with pytest.raises(ValueError, match=r"\{'program': key\}"):
        env.reset()
    assert statuses(curriculum) == ["env_error", "env_error"]


def test_wrapped_programs_have_the_wrappers_spaces(tmp_path: Path, counter: Program) -> None:
    from spade_gym.envs.wrappers import ActionMenu, HashObs

    program = counter.with_manifest(commands=("win", "lose"))
    tasks = program_tasks(tmp_path, program)

    def wrap(env: Any) -> Any:
        return HashObs(ActionMenu(env), num_features=16)

    env = CurriculumEnv(None, Fixed(*tasks), pool=tmp_path / "pool", wrap=wrap, example=tasks[0])
    assert env.observation_space == Box(-1.0, 1.0, (16,), np.float32)
    assert env.reset()[0].shape == (16,)
    env.close()


# ---- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_copy_of_a_curriculum_in_another_process_is_refused() -> None:
    curriculum = walks(2)
    env = CurriculumEnv(walk, curriculum)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(SpadeError, match="CurriculumServer"):
                env.reset()
            with pytest.raises(SpadeError, match="CurriculumServer"):
                CurriculumEnv(walk, curriculum)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_dead_server_is_reported_and_the_outcome_told_when_one_is_back(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    curriculum = walks(2)
    with CurriculumServer(curriculum, address=address):
        env = CurriculumEnv(walk, address)
        env.reset()
        env.step(1)
        assert isinstance(env._plays.curriculum, Client)  # type: ignore[union-attr]
    with pytest.raises(ServiceError, match="does not answer"):
        env.step(1)
    with pytest.raises(ServiceError, match="does not answer"):
        env.reset()
    with pytest.raises(ServiceError, match="1 outcomes are kept"):
        env.close()
    with CurriculumServer(curriculum, address=address):
        env.reset()
        env.close()
    assert curriculum.receipts["counted"] + curriculum.receipts["duplicate"] == 1
