from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from runs import make, play, same

from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.memory_file import MemoryFileError, export_memory, import_memory
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.store import Store
from spade_gym.curriculum.task import Outcome, Task


def small() -> Memory:
    memory = Memory(4)
    task = Task("reset", {"size": 3}, hint="Left.", parent="p", mutation="size = 3", setting="multi_turn")
    slot = memory.add(task, now=0).slot
    played = Outcome(0, 11, total=1.0, won=True, length=2, value=0.5, policy_version=2)
    memory.played(slot, played, "plain", window=4)
    memory.played(slot, Outcome(1, 12, total=0.5, won=False, length=3, policy_version=7), "plain", window=6)
    memory.played(slot, Outcome(2, 11, total=1.0, won=True, length=3, policy_version=8), "hint", window=6)
    memory.restore(slot, num_plays=9, staleness=5)
    return memory


def test_a_memory_survives_export_and_import(tmp_path: Path) -> None:
    export_memory(small(), tmp_path / "m.json")
    found = json.loads((tmp_path / "m.json").read_text())["records"][0]
    assert (found["mean_return"], found["win_rate"], found["num_plays"]) == (0.75, 0.5, 9)
    assert found["regret"] == 0.5  # of window 6, the one with both arms
    assert (found["policy_version"], found["staleness"], found["program"]) == (8, 5, None)
    assert found["task"]["setting"] == "multi_turn"
    assert found["plays"]["seeds"] == [11, 12, 11]
    memory = Memory(4)
    assert import_memory(memory, tmp_path / "m.json", now=9) == 1
    record = next(iter(memory))
    assert record.task == next(iter(small())).task
    plays = record.log.outcomes()
    assert plays.returns.tolist() == [1.0, 0.5, 1.0]
    assert plays.hinted.tolist() == [False, False, True]
    assert plays.windows.tolist() == [-3, -1, -1]
    assert plays.values[0] == 0.5
    assert plays.policy_versions.tolist() == [2, 7, 8]
    assert (record.log.num_plays, memory.support.tolist(), memory.staleness.tolist()) == (9, [9], [5])
    assert import_memory(memory, tmp_path / "m.json", now=9) == 0


def test_an_import_is_kept_and_goes_on_deterministically(tmp_path: Path) -> None:
    source = make()
    play(source, 40)
    export_memory(source.memory, tmp_path / "m.json")
    with DurableCurriculum(make(seed=5), Store(tmp_path / "run")) as curriculum:
        assert curriculum.import_memory(tmp_path / "m.json") == len(source.memory)
        state = curriculum.state_dict()
        expected = [same(ticket) for ticket in play(curriculum, 30)]
        curriculum.load_state_dict(state)
    with DurableCurriculum(make(seed=5), Store(tmp_path / "run")) as curriculum:
        assert [same(ticket) for ticket in play(curriculum, 30)] == expected


WHOLE = json.dumps(
    {
        "format": "spade-gym memory",
        "version": 1,
        "records": [
            {"task": {"kind": "make", "value": {}}, "num_plays": 0, "staleness": 0,
             "plays": {item.name: [] for item in fields(Outcomes)}}
        ],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ("[]", "no exported memory"),
        ('{"format": "spade-gym memory", "version": 2, "records": []}', "version 2"),
        ('{"format": "spade-gym memory", "version": 1, "records": [{"task": {"kind": "x", "value": {}}}]}', "record 0"),
        ('{"format": "spade-gym memory", "version": 1, "records": [{"task": {"kind": "make", "value": {}}}]}', "plays"),
        (
            WHOLE.replace('"num_plays": 0', '"num_plays": "x"'),
            "num_plays must be a whole number of at least 0, got 'x'",
        ),
        (WHOLE.replace('"staleness": 0', '"staleness": -1'), "staleness must be a whole number of at least 0, got -1"),
    ],
)
def test_a_malformed_file_is_refused_and_changes_nothing(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.json").write_text(text)
    memory = small()
    with pytest.raises(MemoryFileError, match=message):
        import_memory(memory, tmp_path / "m.json", now=0)
    assert len(memory) == 1
