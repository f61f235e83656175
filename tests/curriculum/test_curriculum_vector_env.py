from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_program
from families import Fixed, lengths, walk, walks
from gymnasium.vector import AutoresetMode

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_vector_env import CurriculumVectorEnv, WorkerDied
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.generators import Listed
from spade_gym.curriculum.service import CurriculumServer
from spade_gym.curriculum.store import Store
from spade_gym.curriculum.task import Task
from spade_gym.pool import Pool

MODES = ["NextStep", "SameStep", "Disabled"]


def steps(envs: CurriculumVectorEnv, num_steps: int, action: Any) -> tuple[int, list[dict[str, Any]]]:
    """Step, with resets by hand where the mode wants them; count the ends of episodes."""
    ends, infos = 0, []
    for _ in range(num_steps):
        _, _, terminated, truncated, info = envs.step(action if isinstance(action, list) else [action] * envs.num_envs)
        over = terminated | truncated
        ends += int(over.sum())
        infos.append(info)
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
    return ends, infos


@pytest.mark.parametrize("mode", MODES)
def test_every_end_is_told_once_in_one_process(mode: str) -> None:
    curriculum = walks(2, 3, 5)
    envs = CurriculumVectorEnv(walk, curriculum, num_envs=3, vectorization_mode="sync", autoreset_mode=mode)
    envs.reset(seed=0)
    ends, infos = steps(envs, 30, 1)
    assert curriculum.receipts == {"counted": ends}
    assert all(np.issubdtype(info["ticket"].dtype, np.integer) for info in infos)
    envs.close()
    assert curriculum.num_pending == 0


@pytest.mark.parametrize(("context", "mode"), [("forkserver", "NextStep"), ("spawn", "SameStep"), (None, "Disabled")])
def test_every_end_is_told_once_by_processes(context: str | None, mode: str, tmp_path: Path) -> None:
    with DurableCurriculum(walks(2, 3, 5), Store(tmp_path)) as curriculum:
        envs = CurriculumVectorEnv(
            walk, curriculum, num_envs=2, vectorization_mode="async", autoreset_mode=mode, context=context
        )
        envs.reset(seed=0)
        envs.set_policy_version(4)
        ends, _ = steps(envs, 20, 1)
        with envs.server.locked():  # type: ignore[union-attr]
            told = [entry.outcome for entry in curriculum.store.outcomes()]
        assert [outcome.status for outcome in told] == ["ok"] * ends
        assert {outcome.policy_version for outcome in told} == {4}
        envs.close()


def test_a_dead_worker_is_reported_and_loses_no_outcome(tmp_path: Path) -> None:
    with DurableCurriculum(walks(2), Store(tmp_path)) as curriculum, CurriculumServer(curriculum) as server:
        envs = CurriculumVectorEnv(walk, server, num_envs=2, vectorization_mode="async")
        envs.reset()
        ends, _ = steps(envs, 6, 1)
        with pytest.raises(WorkerDied, match=r"environment: exit code \{1: 7\}"):
            steps(envs, 3, [0, 3])
        told = [entry.outcome for entry in curriculum.store.outcomes()]
        assert sum(outcome.won for outcome in told) == ends == 4
        envs.close()


def batch(tmp_path: Path, *programs: Any, arm: str = "plain") -> Fixed:
    pool = Pool(tmp_path)
    for program in programs:
        pool.add(program)
    fixed = Fixed(*[Task("program", {"program": program.digest}) for program in programs], arm=arm)
    fixed.return_range = (-1.0, 1.0)
    return fixed


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_programs_plays_as_single_environments_do(tmp_path: Path, mode: str) -> None:
    programs = [make_program(), make_program(make_program().source + "\n# another\n", name="Other")]
    fixed = batch(tmp_path, *programs)
    envs = CurriculumVectorEnv(None, fixed, num_envs=3, autoreset_mode=mode, pool=tmp_path, max_turns=3)
    observations, infos = envs.reset(seed=0)
    assert infos["ticket"].tolist() == [0, 1, 0]
    single = CurriculumVectorEnv(
        None, batch(tmp_path, *programs), num_envs=3, vectorization_mode="sync", autoreset_mode=mode, pool=tmp_path,
        program_options={"max_turns": 3},
    )  # fmt: skip
    assert single.reset(seed=0)[0] == observations
    for _ in range(12):
        left, right = envs.step(["x"] * 3), single.step(["x"] * 3)
        assert left[0] == right[0]
        for mine, theirs in zip(left[1:4], right[1:4], strict=True):
            assert mine.tolist() == theirs.tolist()
        over = left[2] | left[3]
        assert left[4]["_ticket"].tolist() == right[4]["_ticket"].tolist()
        assert left[4]["ticket"].tolist() == right[4]["ticket"].tolist()
        if mode == "Disabled" and over.any():
            assert envs.reset(options={"reset_mask": over})[0] == single.reset(options={"reset_mask": over})[0]
    assert fixed.told == single.env.envs[0]._plays.curriculum.told  # type: ignore[attr-defined]
    assert len(fixed.told) >= 9
    envs.close()
    single.close()


def test_faults_in_a_batch_are_never_losses(tmp_path: Path) -> None:
    fixed = batch(tmp_path, make_program())
    envs = CurriculumVectorEnv(
        None, fixed, num_envs=4, pool=tmp_path, limits={"step_seconds": 0.3}, autoreset_mode="SameStep"
    )
    envs.reset()
    envs.step(["raise", "win", "hang", "lose"])
    assert [(told.status, told.won) for told in fixed.told] == [
        ("env_error", False), ("ok", True), ("timeout", False), ("ok", False)
    ]  # fmt: skip
    envs.close()
    assert [told.status for told in fixed.told[4:]] == ["aborted"] * 4


def test_a_program_that_fails_in_its_reset_is_skipped_in_a_batch(tmp_path: Path) -> None:
    broken = make_program(make_program().source.replace("self.turn = 0", "raise ValueError('no')"), name="Broken")
    fixed = batch(tmp_path, broken, make_program())
    envs = CurriculumVectorEnv(None, fixed, num_envs=2, pool=tmp_path, autoreset_mode="SameStep")
    _, infos = envs.reset()
    assert infos["ticket"].tolist() == [1, 1]
    envs.step(["win", "win"])
    assert sum(told.won for told in fixed.told) == 2
    assert {told.status for told in fixed.told} == {"ok", "env_error"}
    envs.close()


def test_hints_are_shown_in_a_batch(tmp_path: Path) -> None:
    envs = CurriculumVectorEnv(None, batch(tmp_path, make_program(), arm="hint"), num_envs=2, pool=tmp_path)
    assert all(text.endswith("HINT: Say win.") for text in envs.reset()[0])
    envs.close()


def test_evaluation_in_a_batch_never_tells_and_is_fixed_by_its_seed(tmp_path: Path) -> None:
    fixed = batch(tmp_path, make_program())
    for source in (fixed, [ticket.task for ticket in fixed.tickets]):
        envs = CurriculumVectorEnv(None, source, num_envs=2, pool=tmp_path, evaluation=True)
        first = envs.reset(seed=3)[0]
        steps(envs, 10, "win")
        envs.close()
        assert fixed.told == []
    again = CurriculumVectorEnv(None, [fixed.tickets[0].task], num_envs=2, pool=tmp_path, evaluation=True)
    assert again.reset(seed=3)[0] == first
    again.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vectorization_mode": "threads"}, "batch, sync, async"),
        ({"num_envs": 0}, "num_envs must be a whole number of at least 1, got 0"),
        ({"evaluation": "yes"}, "evaluation must be true or false, got 'yes'"),
        ({"vectorization_mode": "batch"}, "for programs"),
        ({"autoreset_mode": "Never"}, "Never"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CurriculumVectorEnv(walk, Fixed(*lengths(1)), **options)


def test_environments_of_text_work_in_processes(tmp_path: Path) -> None:
    program = make_program()
    Pool(tmp_path).add(program)
    curriculum = preset.make(
        "plr", generator=Listed([Task("program", {"program": program.digest})]), return_range=(-1.0, 1.0)
    )
    envs = CurriculumVectorEnv(None, curriculum, num_envs=2, vectorization_mode="async", pool=tmp_path)
    assert all(text.startswith("seed ") for text in envs.reset()[0])
    ends, _ = steps(envs, 6, "win")
    envs.close()
    assert curriculum.receipts["counted"] == ends == 6


def test_partial_functions_make_environments() -> None:
    envs = CurriculumVectorEnv(partial(walk, size=4), walks(2), num_envs=2)
    assert envs.reset()[0].shape == (2, 4)
    envs.close()
