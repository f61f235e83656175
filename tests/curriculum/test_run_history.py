from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from runs import make, play

from spade_gym.cli.main import main
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.memory_file import export_memory, write_json
from spade_gym.curriculum.plot import plot, write_scalars
from spade_gym.curriculum.run_history import GROUPS, History, curves, read_history
from spade_gym.curriculum.store import Store, StoreError
from spade_gym.curriculum.store_schema import APPLICATION_ID
from spade_gym.errors import SpadeError
from spade_gym.selfplay.run_schema import APPLICATION
from spade_gym.selfplay.run_store import RunStore


def history(rows: list[tuple[int, int, float, bool]]) -> History:
    """Rows of time, task, return (won at 1), hinted."""
    times, tasks, returns, hinted = (np.array(column) for column in zip(*rows, strict=True))
    ids = tuple(f"t{number}" for number in range(int(tasks.max()) + 1))
    return History(times, "tickets", tasks, returns, returns == 1.0, hinted, ids, dict.fromkeys(GROUPS, 0))


def test_curves_by_hand() -> None:
    rows = [(0, 0, 1.0, False), (1, 0, 0.0, False), (2, 0, 1.0, True), (3, 1, 0.0, False)]
    rows += [(time, 1, 1.0, False) for time in range(4, 8)]
    found = curves(history(rows), num_points=2)
    assert found.times.tolist() == [3, 7]
    assert found.num_plays.tolist() == [4, 4]
    assert found.win_rate == pytest.approx([1 / 3, 1.0])
    assert found.mean_return == pytest.approx([1 / 3, 1.0])
    assert found.regret == pytest.approx([0.5, np.nan], nan_ok=True)  # task 0: 1 with the hint, 1/2 without
    assert found.num_tasks.tolist() == [2, 1]
    assert {name: numbers.tolist() for name, numbers in found.groups.items()} == {
        "mastered": [0, 0], "learnable": [0, 1], "intractable": [0, 0], "few plays": [2, 0]
    }  # fmt: skip
    assert ("regret", 3, 0.5) in set(found.scalars())
    assert not any(name == "regret" and time == 7 for name, time, _ in found.scalars())
    with pytest.raises(ValueError, match="num_points"):
        curves(history(rows), num_points=0)


def test_one_play_is_enough() -> None:
    found = curves(history([(5, 0, 1.0, False)]))
    assert found.times.tolist() == [5]
    assert found.win_rate.tolist() == [1.0]


def test_a_run_is_read_from_its_folder_and_from_json(tmp_path: Path) -> None:
    curriculum = make("spade", capacity=60)
    with DurableCurriculum(curriculum, Store(tmp_path / "run")) as kept:
        tickets = play(kept, 400)
    found = read_history(tmp_path / "run")
    assert found.unit == "tickets"
    assert len(found.times) == curriculum.receipts["counted"] + curriculum.receipts["late"]
    assert set(found.ids) == {ticket.task.id for ticket in tickets}
    assert sum(found.memory.values()) == len(curriculum.memory)
    assert (curves(found).num_plays.sum(), curves(found).times[-1]) == (len(found.times), found.times[-1])
    assert not np.isnan(curves(found).regret).all()
    assert read_history(tmp_path / "run" / "run.db").ids == found.ids
    write_json(tmp_path / "state.json", curriculum.state_dict())
    export_memory(curriculum.memory, tmp_path / "memory.json")
    state, memory = read_history(tmp_path / "state.json"), read_history(tmp_path / "memory.json")
    assert state.unit == "windows"
    assert len(state.times) == int(curriculum.memory.support.sum())
    assert state.memory == memory.memory == found.memory
    assert np.array_equal(state.returns, memory.returns)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"a": 1}')
    with pytest.raises(SpadeError, match="cannot be read as a run: give a run's folder"):
        read_history(tmp_path / "bad.json")
    write_json(tmp_path / "empty.json", make().state_dict())
    with pytest.raises(SpadeError, match="holds no valid play yet"):
        read_history(tmp_path / "empty.json")
    with pytest.raises(SpadeError, match=r"there is no run\.db"):
        read_history(tmp_path)


def test_a_self_play_run_is_named_and_the_other_way_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunStore(tmp_path / "selfplay").close()
    with DurableCurriculum(make(), Store(tmp_path / "curriculum")) as kept:
        play(kept, 5)
    assert APPLICATION == 0x53504144 != APPLICATION_ID
    assert main(["curriculum", "plot", str(tmp_path / "selfplay")]) == 2
    told = capsys.readouterr().err
    assert "is the database of a self-play run, not of a curriculum" in told
    assert f"`spade-gym run show {tmp_path / 'selfplay'}`" in told
    with pytest.raises(StoreError, match="of a self-play run"):
        Store(tmp_path / "selfplay")
    for read_only in (True, False):
        with pytest.raises(StoreError, match="another kind"):
            RunStore(tmp_path / "curriculum", read_only=read_only)
    with sqlite3.connect(tmp_path / "curriculum" / "run.db") as database:
        database.execute(f"PRAGMA application_id={APPLICATION}")  # as the first stores had it
    database.close()
    assert len(read_history(tmp_path / "curriculum").times) > 0


def test_the_command_prints_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curriculum = make("plr")
    play(curriculum, 200)
    write_json(tmp_path / "state.json", curriculum.state_dict())
    assert main(["curriculum", "plot", str(tmp_path / "state.json"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["unit"] == "windows"
    assert {"win_rate", "num_plays", "tasks/mastered"} <= {item["name"] for item in data["scalars"]}
    assert main(["curriculum", "presets"]) == 0
    assert "plr (default)" in capsys.readouterr().out
    assert main(["curriculum", "plot", str(tmp_path / "none.json")]) == 2
    assert "cannot be read as a run" in capsys.readouterr().err


def plot_text(found: History, path: Path) -> bytes:
    """Draw with texts as texts."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        return plot(found, path).read_bytes()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [(time, time % 7, float(time % 3 == 0), time % 5 == 0) for time in range(100)]
    assert plot(history(rows), tmp_path / "a.png").stat().st_size > 10_000
    assert plot(history(rows[:1]), tmp_path / "b.svg").exists()
    wide = history([(time, task, 300 * total, hinted) for time, task, total, hinted in rows])
    assert b"win rate, without hint" in plot_text(wide, tmp_path / "c.svg")
    assert b"win rate, without hint" not in plot_text(history(rows), tmp_path / "d.svg")
    with pytest.raises(SpadeError, match="cannot be written"):
        plot(history(rows), tmp_path / "a.nonsense")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scalars(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = [(time, 0, float(time >= 50), False) for time in range(100)]
    assert write_scalars(history(rows), tmp_path) == sum(1 for _ in curves(history(rows)).scalars())
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    values = {event.step: event.value for event in events.Scalars("curriculum/win_rate")}
    assert values[min(values)] == 0.0
    assert values[99] == 1.0
