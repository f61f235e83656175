from __future__ import annotations

import hashlib
import multiprocessing
import sqlite3
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from runs import crash, task

from spade_gym.curriculum.journal import Added, Asked, Snapshot, Told
from spade_gym.curriculum.store import Store, StoreError
from spade_gym.curriculum.task import Outcome, Task, Ticket

TASK = Task("reset", {"size": 3}, skill="Logical Deduction", parent="p", mutation="size = 3", hint="Go left.")
ENTRIES = [
    Asked(1, "ann", Ticket(0, TASK, (5, 6), "hint", False, "ann")),
    Told(2, Outcome(0, 5, total=0.25, won=True, length=4, policy_version=7, value=0.1), "counted"),
    Told(3, Outcome(0, 6, status="timeout"), "excluded"),
    Asked(4, "bob", None),
    Added(5, task(size=9), None),
    Added(6, task(size=9), "exact duplicate"),
]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_was_written_is_read_back_in_order(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(ENTRIES[:3])
        store.append(ENTRIES[3:], Snapshot(7, {"capacity": 2}, {"rng": 1 << 120}))
    with Store(tmp_path) as store:
        assert store.journal() == ENTRIES
        assert store.journal(after=3) == ENTRIES[3:]
        assert store.snapshot() == Snapshot(7, {"capacity": 2}, {"rng": 1 << 120})
        assert store.last() == 7
        assert {item.id: item for item in store.tasks()}[TASK.id] == TASK
        assert [told.receipt for told in store.outcomes()] == ["counted", "excluded"]


def test_only_the_last_two_snapshots_are_kept(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for n in (1, 2, 3):
            store.append([], Snapshot(n, {}, {"n": n}))
        assert [row[0] for row in store._tables._rows("SELECT n FROM snapshots ORDER BY n")] == [2, 3]


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(ENTRIES)
        with pytest.raises(StoreError, match="in use"):
            Store(tmp_path)
        with Store(tmp_path, read_only=True) as reader:
            assert len(reader.journal()) == 6
            store.append([Asked(8, "", None)])
            assert len(reader.journal()) == 7
            with pytest.raises(StoreError, match="read_only"):
                reader.append([])
    Store(tmp_path).close()


def test_a_failed_commit_leaves_nothing_behind(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(ENTRIES[:1])
        with pytest.raises(StoreError, match="nothing of this commit was kept"):
            store.append([Asked(2, "", None), ENTRIES[0]])
        assert store.journal() == ENTRIES[:1]
        store.append(ENTRIES[1:])


def test_a_reader_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no run\.db"):
        Store(tmp_path, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(b"my thesis, only copy")
    with pytest.raises(StoreError, match="no SQLite database"):
        Store(tmp_path, read_only=read_only)
    assert path.read_bytes() == b"my thesis, only copy"


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).close()
    path = tmp_path / "run.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    before = digest(path)
    with pytest.raises(StoreError, match="newer spade-gym"):
        Store(tmp_path)
    assert digest(path) == before


def test_a_reader_says_that_nothing_was_written_yet(tmp_path: Path) -> None:
    (tmp_path / "run.db").touch()
    with pytest.raises(StoreError, match="holds nothing yet"):
        Store(tmp_path, read_only=True)
    Store(tmp_path).close()
    with Store(tmp_path, read_only=True) as store:
        assert store.last() == 0


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    before = digest(path)
    with pytest.raises(StoreError, match="another program"):
        Store(tmp_path)
    assert digest(path) == before


@pytest.mark.parametrize("where", [0.3, 0.6, 0.9])
def test_a_damaged_database_is_refused_and_left_alone(tmp_path: Path, where: float) -> None:
    with Store(tmp_path) as store:
        rows = [Told(n, Outcome(n, n * 77777), "counted") for n in range(1, 4000)]
        store.append(rows, Snapshot(4000, {}, {"n": list(range(9000))}))
    path = tmp_path / "run.db"
    data = bytearray(path.read_bytes())
    page = int(len(data) * where) // 4096 * 4096
    data[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    before = digest(path)
    with pytest.raises(StoreError, match="damaged"):
        Store(tmp_path)
    assert digest(path) == before


def test_a_truncated_database_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append([Told(n, Outcome(n, n), "counted") for n in range(1, 4000)])
    path = tmp_path / "run.db"
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(StoreError, match="damaged"):
        Store(tmp_path)


def test_every_commit_is_seen_before_and_after_the_tables_are_put_in_order(tmp_path: Path) -> None:
    with Store(tmp_path) as store, Store(tmp_path, read_only=True) as reader:
        expected = []
        for n in range(1, 1200, 2):  # the tail is emptied twice meanwhile
            entries = [Asked(n, "", Ticket(n, task(size=n), (n,))), Told(n + 1, Outcome(n, n, 0.5), "counted")]
            store.append(entries)
            expected += entries
            if n % 97 == 0:
                assert reader.journal() == store.journal() == expected
                assert reader.last() == n + 1
        assert 0 < len(store._tail) < 1800
        assert len(list(reader.tasks())) == 600
        assert [told.n for told in reader.outcomes()] == list(range(2, 1201, 2))
    with Store(tmp_path) as store:
        assert store._tables.tail() == []
        assert store.journal() == expected


def test_a_store_that_was_not_closed_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    store.append(ENTRIES)
    left = crash(store, tmp_path / "b")
    with Store(left) as again:
        assert again.journal() == ENTRIES
        with pytest.raises(StoreError, match="place 6 of the journal is taken"):
            again.append([Told(6, Outcome(0, 5), "counted")])
        again.append([Told(7, Outcome(0, 5), "duplicate")])
    store.close()
    with Store(left) as again:
        assert len(again.journal()) == 7


def test_what_the_disk_cannot_hold_is_refused_whole(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for number in (1 << 70, 1 << 64):
            huge = Asked(2, "ann", Ticket(number, TASK, (1,)))
            with pytest.raises(StoreError, match="nothing of this commit was kept"):
                store.append([Told(1, Outcome(0, 0), "counted"), huge])
        assert store.journal() == []
        store.append(ENTRIES)


def test_a_damaged_tail_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    store.append(ENTRIES)
    left = crash(store, tmp_path / "b")
    store.close()
    database = sqlite3.connect(left / "run.db")
    with database:
        database.execute("UPDATE tail SET rows = x'93'")
    database.close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="row 6 of its tail cannot be read"):
            Store(left, read_only=read_only).journal()
    database = sqlite3.connect(left / "run.db")
    assert database.execute("SELECT n, rows FROM tail").fetchall() == [(6, b"\x93")]
    database.close()


def read_on(folder: str, stop: str, pipe: Connection) -> None:
    """Read until told to stop; send after each time how often that went well, or the error."""
    times = 0
    try:
        while not Path(stop).exists():
            with Store(folder, read_only=True) as store:
                entries = store.journal()
                assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
            times += 1
            pipe.send(times)
    except (StoreError, AssertionError) as error:
        pipe.send(str(error))


def test_a_reader_beside_a_writer_always_sees_one_whole_state(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    with Store(tmp_path / "run") as store:
        reader = context.Process(target=read_on, args=(str(tmp_path / "run"), str(tmp_path / "stop"), theirs))
        reader.start()
        n, found = 0, 0
        while found < 20:
            n += 1
            store.append([Asked(n, "", Ticket(n, task(size=n), (n,)))])
            if ours.poll(0.001):
                found = ours.recv()
                assert isinstance(found, int), found
        (tmp_path / "stop").touch()
        reader.join()


def test_durability_has_two_values(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="process, power"):
        Store(tmp_path, durability="full")  # type: ignore[arg-type]
