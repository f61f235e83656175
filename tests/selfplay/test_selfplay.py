from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from models.scripted_model import ScriptedModel
from selfplay.small_runs import accept, script, small_recipe, small_run

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.designer.request import DesignerOutage
from spade_gym.errors import SandboxError
from spade_gym.models.base import Completion, ModelRequest
from spade_gym.programs.program import Program
from spade_gym.selfplay.null_trainer import NullTrainer
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.selfplay import SelfPlayError, selfplay
from spade_gym.selfplay.settings_table import RecipeError
from spade_gym.selfplay.trainer import UpdateBatch
from spade_gym.validation.finding import Verdict

ROOT = Path(__file__).parents[2]


def tables(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every table of a run without the columns that may differ between two runs."""
    database = sqlite3.connect(folder / "run.db")
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")]
    found = {}
    for name in names:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        kept = [column for column in columns if not column.endswith(("_at", "_seconds", "_path"))]
        found[name] = sorted(database.execute(f"SELECT {', '.join(kept)} FROM {name}"), key=repr)
    database.close()
    return found


class Recorder(NullTrainer):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[UpdateBatch] = []

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        self.batches.append(batch)
        return super().update(batch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    with small_run(folder / "run", small_recipe(folder)) as run:
        selfplay(run)
    return folder / "run"


def test_a_run_plays_what_the_recipe_says(finished: Path) -> None:
    with RunStore(finished, read_only=True) as store:
        counts = store.rows("SELECT rollout, arm, count(*) AS n FROM plays GROUP BY rollout, arm ORDER BY rollout, arm")
        assert [(row["rollout"], row["arm"], row["n"]) for row in counts] == [
            (0, "hint", 12), (0, "plain", 12), (1, "plain", 12), (2, "hint", 12), (2, "plain", 12), (3, "plain", 12),
        ]  # fmt: skip
        assert {row["status"] for row in store.rows("SELECT status FROM plays")} == {"ok"}
        pools = store.rows("SELECT * FROM pools ORDER BY epoch, environment")
        assert [(row["epoch"], row["environment"], row["born"]) for row in pools] == [
            (0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 2), (1, 1, 2), (1, 2, 2),
        ]  # fmt: skip
        assert len({row["digest"] for row in pools}) == 6
        assert [row["skill"] for row in pools] == [
            "Mathematical Reasoning", "Logical Deduction", "Spatial Reasoning", "Pattern Recognition", "Optimization",
            "Causal Inference",
        ]  # fmt: skip


def test_both_arms_play_the_same_instances_and_later_rollouts_play_others(finished: Path) -> None:
    with RunStore(finished, read_only=True) as store:

        def seeds(rollout: int, arm: str) -> list[int]:
            query = "SELECT seed FROM plays WHERE rollout = ? AND arm = ? ORDER BY key"
            return [row["seed"] for row in store.rows(query, (rollout, arm))]

        assert seeds(0, "plain") == seeds(0, "hint")
        assert not set(seeds(0, "plain")) & set(seeds(1, "plain"))


def test_scores_can_be_worked_out_from_the_plays(finished: Path) -> None:
    with RunStore(finished, read_only=True) as store:
        scores = store.rows("SELECT * FROM scores ORDER BY epoch, environment")
        assert len(scores) == 6
        for row in scores:
            first = row["epoch"] * 2
            query = (
                "SELECT avg(won) AS win_rate, avg(total) AS total, count(*) AS n FROM plays "
                "WHERE digest = ? AND arm = ? AND rollout BETWEEN ? AND ?"
            )
            window = store.row(query, (row["digest"], "plain", first, first + 1))
            plain = store.row(query, (row["digest"], "plain", first, first))
            hinted = store.row(query, (row["digest"], "hint", first, first))
            assert window is not None
            assert plain is not None
            assert hinted is not None
            assert (row["num_plain"], row["num_hinted"]) == (8, 4)
            assert row["win_rate"] == pytest.approx(window["win_rate"])
            assert row["mean_return"] == pytest.approx(window["total"])
            assert 0 <= row["reward"] <= 1
            assert row["regret"] is not None


def test_the_trainer_sees_every_rollout_and_the_designer_when_its_window_has_closed(tmp_path: Path) -> None:
    trainer = Recorder()
    recipe = small_recipe(tmp_path)
    with small_run(tmp_path / "run", recipe) as run:
        object.__setattr__(run, "trainer", trainer)
        selfplay(run)
    roles = [
        (batch.rollout, *(sum(t.role == role for t in batch.trajectories) for role in ("agent", "designer")))
        for batch in trainer.batches
    ]
    assert roles == [(0, 12, 0), (1, 12, 0), (2, 12, 3), (3, 12, 0), (4, 0, 3)]
    for batch in trainer.batches:
        groups: dict[str, list[float]] = {}
        for trajectory in batch.trajectories:
            groups.setdefault(f"{trajectory.role} {trajectory.group}", []).append(trajectory.advantage)
        for advantages in groups.values():
            assert sum(advantages) == pytest.approx(0.0, abs=1e-6)
    designer = [t for t in trainer.batches[2].trajectories if t.role == "designer"]
    assert {t.born for t in designer} == {0}
    assert {t.group for t in designer} == {"Mathematical Reasoning", "Logical Deduction", "Spatial Reasoning"}


def test_designer_advantages_compare_programs_of_a_skill(tmp_path: Path) -> None:
    trainer = Recorder()
    recipe = small_recipe(
        tmp_path, "cycle.environments=6", "cycle.rollouts=2", "reward.options.pairing=plain", "reward.shrink=false"
    )
    with small_run(tmp_path / "run", recipe) as run:
        object.__setattr__(run, "trainer", trainer)
        selfplay(run)
    skills: dict[str, list[tuple[float, float]]] = {}
    for trajectory in trainer.batches[-1].trajectories:
        assert trajectory.role == "designer"
        skills.setdefault(trajectory.group, []).append((trajectory.reward, trajectory.advantage))
    assert sum(len(pairs) for pairs in skills.values()) == 6
    assert any(len(pairs) > 1 for pairs in skills.values())
    scale = min(50.0, 24 / 6 * 2)  # agent trajectories / designer trajectories · K
    for pairs in skills.values():
        mean = sum(reward for reward, _ in pairs) / len(pairs)
        assert [advantage for _, advantage in pairs] == pytest.approx([(r - mean) * scale for r, _ in pairs])


def test_two_runs_are_equal(tmp_path: Path, finished: Path) -> None:
    recipe = small_recipe(finished.parent)
    with small_run(tmp_path / "run", recipe, agent=ScriptedModel(script, batch=3)) as run:
        selfplay(run)
    assert tables(tmp_path / "run") == tables(finished)


class Killed(BaseException):
    """Stands for the death of the process, at a point of the test's choice."""


@pytest.mark.parametrize("after", [0, 1, 2, 5, 11, 17, 25, 40, 60])
def test_a_run_that_died_goes_on_to_the_same_end(after: int, tmp_path: Path, finished: Path) -> None:
    asked = 0

    def mortal(request: ModelRequest) -> str:
        nonlocal asked
        asked += 1
        if asked > after:
            raise Killed
        return script(request)

    recipe = small_recipe(finished.parent)
    with pytest.raises(Killed), small_run(tmp_path / "run", recipe, agent=ScriptedModel(mortal)) as run:
        selfplay(run)
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    assert tables(tmp_path / "run") == tables(finished)


def test_a_finished_run_does_nothing_more(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    before = tables(tmp_path / "run")

    def silent(request: ModelRequest) -> str:
        raise AssertionError(f"nothing was to be asked, but {request.key} was")

    with small_run(tmp_path / "run", recipe, agent=ScriptedModel(silent)) as run:
        trainer = Recorder()
        object.__setattr__(run, "trainer", trainer)
        selfplay(run)
        assert trainer.batches == []
    assert tables(tmp_path / "run") == before


def test_a_failed_regeneration_keeps_the_old_pool_and_says_so(tmp_path: Path) -> None:
    judged = 0

    def strict(program: Program) -> Verdict:
        nonlocal judged
        judged += 1
        verdict = accept(program)
        if judged <= 3:
            return verdict
        return Verdict(**{**{k: getattr(verdict, k) for k in verdict.__slots__}, "accepted": False})

    recipe = small_recipe(tmp_path)
    with small_run(tmp_path / "run", recipe, judge=strict) as run:
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        pools = store.rows("SELECT * FROM pools ORDER BY epoch, environment")
        assert [row["digest"] for row in pools[:3]] == [row["digest"] for row in pools[3:]]
        notes = store.rows("SELECT * FROM notes WHERE kind = 'pool kept'")
        assert [(row["rollout"], "0 of 3" in row["message"]) for row in notes] == [(2, True)]
        updates = store.rows("SELECT rollout, num_designer FROM updates ORDER BY rollout")
        assert [(row["rollout"], row["num_designer"]) for row in updates] == [(0, 0), (1, 0), (2, 3), (3, 0)]


def test_without_any_pool_there_is_an_error_that_says_where_to_look(tmp_path: Path) -> None:
    def refuse(program: Program) -> Verdict:
        verdict = accept(program)
        return Verdict(**{**{k: getattr(verdict, k) for k in verdict.__slots__}, "accepted": False})

    told = r"0 of 3 programs were accepted.*spade-gym run show"
    with (
        small_run(tmp_path / "run", small_recipe(tmp_path), judge=refuse) as run,
        pytest.raises(SelfPlayError, match=told),
    ):
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        assert store.rows("SELECT count(*) AS n FROM attempts")[0]["n"] == 9


def test_a_broken_sandbox_is_never_a_verdict(tmp_path: Path) -> None:
    def broken(program: Program) -> Verdict:
        raise SandboxError("no worker can be started")

    with small_run(tmp_path / "run", small_recipe(tmp_path), judge=broken) as run, pytest.raises(SandboxError):
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        assert store.rows("SELECT * FROM attempts WHERE outcome NOT IN ('unread')") == []


@pytest.mark.parametrize(
    ("override", "requests", "examples"),
    [("memory.use=true", True, True), ("memory.use=false", True, False)],
)
def test_the_memory_gives_examples_unless_it_is_switched_off(
    override: str, requests: bool, examples: bool, tmp_path: Path
) -> None:
    recipe = small_recipe(
        tmp_path, override, 'cycle.skills=["Mathematical Reasoning"]', "cycle.skills_per_regeneration=1",
        "cycle.environments=2", "cycle.plays=8", "cycle.rollouts=6",
    )  # fmt: skip
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        rows = store.rows("SELECT * FROM replies WHERE epoch > 0")
        assert bool(rows) is requests
        assert any(row["num_examples"] for row in rows) is examples


def test_an_outage_stops_the_run_and_its_plays_are_repeated(tmp_path: Path, finished: Path) -> None:
    up = True

    def flickering(request: ModelRequest) -> str | Completion:
        if up or request.key.startswith("hint/"):
            return script(request)
        return Completion(request.key, "", "error", error="the server is gone")

    recipe = small_recipe(finished.parent)
    with small_run(tmp_path / "run", recipe, agent=ScriptedModel(flickering)) as run:
        up = False
        with pytest.raises(SelfPlayError, match=r"12 of 12 plays were aborted by scripted, .*the server is gone"):
            selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        assert {row["status"] for row in store.rows("SELECT status FROM plays")} == {"aborted"}
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    assert tables(tmp_path / "run") == tables(finished)


def test_an_outage_of_the_hint_writer_stops_the_run_and_hints_are_asked_for_again(
    tmp_path: Path, finished: Path
) -> None:
    def down(request: ModelRequest) -> str | Completion:
        if request.key.startswith("hint/"):
            return Completion(request.key, "", "error", error="the server is gone")
        return script(request)

    recipe = small_recipe(finished.parent)
    run = small_run(tmp_path / "run", recipe, agent=ScriptedModel(down))
    with run, pytest.raises(DesignerOutage, match="the server is gone"):
        selfplay(run)
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    assert tables(tmp_path / "run") == tables(finished)


@pytest.mark.parametrize(
    "change",
    ["UPDATE replies SET prompt = '{'", "UPDATE replies SET origin = '[1]'", "UPDATE attempts SET findings = '{}'"],
)
def test_kept_replies_that_cannot_be_read_are_named(change: str, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    database = sqlite3.connect(tmp_path / "run" / "run.db")
    database.execute(change)
    database.commit()
    database.close()
    told = r"what was kept of design/0/\d/0 cannot be read"
    with small_run(tmp_path / "run", small_recipe(finished.parent)) as run, pytest.raises(StoreError, match=told):
        selfplay(run)


class Wrong(NullTrainer):
    """Returns what is no metric at its second update."""

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        super().update(batch)
        return {"loss": float("nan") if self.num_updates == 2 else 0.5}


def test_a_metric_that_is_no_number_stops_the_run_and_the_update_is_made_again(tmp_path: Path, finished: Path) -> None:
    recipe = small_recipe(finished.parent)
    with small_run(tmp_path / "run", recipe) as run:
        object.__setattr__(run, "trainer", Wrong())
        with pytest.raises(SelfPlayError, match="rollout 1: the trainer's metric 'loss' is nan"):
            selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        assert [row["rollout"] for row in store.rows("SELECT rollout FROM updates")] == [0]


def test_the_last_update_is_always_saved(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, "trainer.save_every=100", "designer.train=false")
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        assert [row["rollout"] for row in store.rows("SELECT rollout FROM checkpoints")] == [3]


def test_a_link_in_a_run_folder_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.partial").symlink_to(victim)
    (folder / "manifest.json").symlink_to(victim)
    with small_run(folder, small_recipe(tmp_path)):
        pass
    assert victim.read_text() == "mine"


def test_a_run_that_could_not_be_opened_leaves_no_settings_behind(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    for wrong in ("trainer.name=nobody", "designer.name=nobody"):
        with pytest.raises(RecipeError, match=r"there is no .* 'nobody' here; there are"):
            small_run(tmp_path / "run", small_recipe(tmp_path, wrong))
    with small_run(tmp_path / "run", recipe):
        pass


def test_a_rejected_reply_is_learnt_from_only_where_the_recipe_pays_it(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, "designer.rejected_reward=-0.5", "cycle.rollouts=2")
    trainer = Recorder()
    with small_run(tmp_path / "run", recipe) as run:
        object.__setattr__(run, "trainer", trainer)
        selfplay(run)
    designer = [t for t in trainer.batches[-1].trajectories if t.role == "designer"]
    rejected = [t for t in designer if t.reward == -0.5]
    with RunStore(tmp_path / "run", read_only=True) as store:
        refused = store.rows("SELECT key FROM attempts WHERE outcome != 'accepted'")
    assert sorted(t.key for t in rejected) == sorted(row["key"] for row in refused)
    assert len(refused) >= 1
    assert len(designer) == 3 + len(refused)


def test_without_designer_training_only_the_agent_is_learnt_from(tmp_path: Path) -> None:
    with small_run(tmp_path / "run", small_recipe(tmp_path, "designer.train=false")) as run:
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        updates = store.rows("SELECT rollout, num_designer FROM updates ORDER BY rollout")
        assert [(row["rollout"], row["num_designer"]) for row in updates] == [(0, 0), (1, 0), (2, 0), (3, 0)]
        assert len(store.rows("SELECT * FROM scores WHERE reward IS NOT NULL")) == 6


@pytest.mark.parametrize("choice", ["uniform", "sliding-difficulty", "learning-potential"])
def test_a_fixed_pool_stays_and_is_chosen_from(choice: str, tmp_path: Path) -> None:
    recipe = small_recipe(
        tmp_path, "cycle.pool=fixed", f"cycle.choice={choice}", "cycle.fixed_programs=6", "cycle.environments=2",
        "cycle.hint_plays=0", "reward.scorer=solve-rate", "reward.options={}", "reward.shrink=false",
        "designer.train=false", "hints.source=manifest",
    )  # fmt: skip
    with small_run(tmp_path / "run", recipe) as run:
        selfplay(run)
    with RunStore(tmp_path / "run", read_only=True) as store:
        played = store.rows("SELECT rollout, count(DISTINCT environment) AS n FROM plays GROUP BY rollout")
        assert [(row["rollout"], row["n"]) for row in played] == [(rollout, 2) for rollout in range(4)]
        assert len({row["epoch"] for row in store.rows("SELECT epoch FROM replies")}) == 1
        if choice == "uniform":
            first = store.rows("SELECT count(DISTINCT environment) AS n FROM plays WHERE rollout < 3")
            assert first[0]["n"] == 6


def test_another_recipe_in_the_same_folder_is_refused_and_named(tmp_path: Path, finished: Path) -> None:
    recipe = small_recipe(finished.parent, "cycle.plays=2")
    with pytest.raises(StoreError, match=r"cycle.plays was 4 and is 2"):
        small_run(finished, recipe)


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    with small_run(tmp_path / "run", recipe), pytest.raises(StoreError, match="in use"):
        small_run(tmp_path / "run", recipe)


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0 torn"])
def test_a_damaged_database_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.db").write_bytes(content)
    if not content:  # an empty file is what a crash before the first commit leaves: a new run begins in it
        with small_run(folder, recipe):
            return
    with pytest.raises(StoreError, match="left as it is"):
        small_run(folder, recipe)
    assert (folder / "run.db").read_bytes() == content


def test_a_newer_or_foreign_database_is_refused(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    with small_run(tmp_path / "new", recipe):
        pass
    database = sqlite3.connect(tmp_path / "new" / "run.db")
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(StoreError, match="version 99"):
        small_run(tmp_path / "new", recipe)
    (tmp_path / "other").mkdir()
    database = sqlite3.connect(tmp_path / "other" / "run.db")
    database.execute("CREATE TABLE something (a)")
    database.close()
    with pytest.raises(StoreError, match="another kind"):
        small_run(tmp_path / "other", recipe)


def test_the_manifest_tells_what_the_run_was_made_of(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["agent"] == "scripted"
    assert manifest["checkpoint_rule"] == "the last one"
    assert len(manifest["corpus"]["digest"]) == 64
    assert manifest["seed"] == 3
    assert {"spade-gym", "python", "numpy"} <= set(manifest["versions"])


_CHILD = """
import os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from selfplay.small_runs import script, small_recipe, small_run
from models.scripted_model import ScriptedModel
from spade_gym.selfplay.selfplay import selfplay

left = int(sys.argv[1])

def mortal(request):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
    return script(request)

with small_run(Path({run!r}), small_recipe(Path({folder!r})), agent=ScriptedModel(mortal)) as run:
    selfplay(run)
"""


def test_kill_9_again_and_again_loses_and_doubles_nothing(tmp_path: Path, finished: Path) -> None:
    program = _CHILD.format(
        tests=str(ROOT / "tests"), run=str(tmp_path / "run"), folder=str(finished.parent)
    )  # fmt: skip
    deaths = 0
    for budget in (4, 9, 30, 10_000):
        done = subprocess.run(
            [sys.executable, "-c", program, str(budget)], capture_output=True, text=True, timeout=100,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
        )  # fmt: skip
        deaths += done.returncode == -signal.SIGKILL
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
    assert deaths == 3
    assert tables(tmp_path / "run") == tables(finished)
