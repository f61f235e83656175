from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.models.sample import Sample
from spade_gym.rollout.play import Play, Turn
from spade_gym.selfplay.run_schema import TABLES, kinds, tables
from spade_gym.selfplay.run_store import RunStore

NOBODY = 65_534


def a_play(key: str = "play/2/1/plain/0") -> Play:
    return Play(
        key=key, digest="d" * 64, seed=7, arm="plain", total=0.5, won=True, length=1, status="ok", fault="",
        ended="terminated", turns=(Turn("look", "\\boxed{4}", "4", 0.5),),
        samples=(Sample((1, 2), (0, 1), (0.0, -0.5), (0.0, -0.25), (3,)),), policy_version=3, prompt_tokens=1,
        completion_tokens=1, seconds=0.25, last_observation="well done",
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunStore(tmp_path) as store:
        store.set_meta("recipe", {"title": "x"})
        store.put_plays(2, [a_play()])
    return tmp_path


def change(folder: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "run.db")) as database, database:
        for statement in statements:
            database.execute(statement)


def test_plays_come_back_as_they_were(folder: Path) -> None:
    for read_only in (True, False):
        with RunStore(folder, read_only=read_only) as store:
            assert store.plays(2, "plain") == {"play/2/1/plain/0": a_play()}
            assert store.plays(2, "hint") == {}
            assert store.meta("recipe") == {"title": "x"}
            assert store.meta("other") is None


def test_every_column_of_a_name_is_of_one_kind() -> None:
    for columns in tables().values():
        assert all(kinds()[column.name] == column.kind for column in columns)
    assert set(tables()) == {line.split()[2] for line in TABLES.splitlines() if line.startswith("CREATE TABLE")}
    assert [column.name for column in tables()["pools"] if column.key_place] == ["epoch", "environment"]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON plays BEGIN UPDATE plays SET total = 1.0; END", "trigger 't'"),
        ("CREATE VIEW v AS SELECT * FROM plays", "view 'v'"),
        ('CREATE TABLE "a\'; b" (c)', 'table "a\'; b"'),
        ("DROP TABLE scores", "table 'scores'"),
        ("DROP INDEX plays_by_rollout", "index 'plays_by_rollout'"),
        ("ALTER TABLE notes ADD COLUMN more TEXT", "table 'notes'"),
        ("CREATE UNIQUE INDEX one ON plays (arm)", "index 'one'"),
    ],
)
def test_anything_but_the_tables_of_a_run_is_refused(statement: str, told: str, read_only: bool, folder: Path) -> None:
    change(folder, statement)
    before = (folder / "run.db").read_bytes()
    with pytest.raises(StoreError, match="not hold exactly the tables") as error:
        RunStore(folder, read_only=read_only)
    assert told in str(error.value)
    assert "left as it is" in str(error.value) or "left as it was" in str(error.value)
    assert (folder / "run.db").read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("end", ["", "-wal", "-journal", ".lock"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_refused(kind: str, end: str, read_only: bool, tmp_path: Path) -> None:
    run, victim = tmp_path / "run", tmp_path / "victim"
    with RunStore(run):
        pass
    victim.write_bytes(b"")
    path = run / f"run.db{end}"
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    told = "is a symbolic link" if kind == "link" else "is no regular file"
    with pytest.raises(StoreError, match=told):
        RunStore(run, read_only=read_only)
    assert victim.read_bytes() == b""


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE plays SET total = 'abc'",
        "UPDATE plays SET total = NULL",
        "UPDATE plays SET total = 9e999",
        "UPDATE plays SET won = 7",
        "UPDATE plays SET status = 'banana'",
        "UPDATE plays SET seed = x'00'",
        "UPDATE plays SET transcript = x'00ff'",
        "UPDATE plays SET transcript = NULL",
        "UPDATE plays SET samples = 'text'",
        "UPDATE plays SET fault = CAST(x'ff1b' AS TEXT), status = 'banana'",
    ],
)
def test_a_play_of_the_wrong_kind_is_an_error_that_names_the_file(statement: str, folder: Path) -> None:
    change(folder, statement)
    for read_only in (True, False):
        with (
            RunStore(folder, read_only=read_only) as store,
            pytest.raises(StoreError, match=r"run\.db cannot be read: .* left as it is"),
        ):
            store.plays(2, "plain")


def test_readers_show_text_that_is_not_utf8(folder: Path) -> None:
    change(folder, "UPDATE plays SET fault = CAST(x'ff41' AS TEXT)")
    with RunStore(folder, read_only=True) as store:
        assert store.plays(2, "plain")["play/2/1/plain/0"].fault == "\ufffdA"


@pytest.mark.parametrize("value", ["'{'", "NULL", "'" + "[" * 100_000 + "'", "'1" + "0" * 5000 + "'"])
def test_junk_where_json_is_expected(value: str, folder: Path) -> None:
    change(folder, f"UPDATE meta SET value = {value}")
    with RunStore(folder, read_only=True) as store, pytest.raises(StoreError, match="the JSON of meta recipe"):
        store.meta("recipe")


@pytest.mark.parametrize("value", ["{", "[]", '{"failures": 5}', '{"failures": [{}]}', None, "[" * 100_000])
def test_junk_where_findings_are_expected(value: str | None, folder: Path) -> None:
    with RunStore(folder) as store, pytest.raises(StoreError, match="findings of 'design/0'"):
        store.findings({"key": "design/0", "findings": value})


def test_a_damaged_file_is_an_error_and_stays(folder: Path) -> None:
    path = folder / "run.db"
    for damaged in (path.read_bytes()[:5000], b"no database at all" * 100):
        path.write_bytes(damaged)
        for read_only in (True, False):
            with pytest.raises(StoreError, match="cannot be used"):
                RunStore(folder, read_only=read_only)
        assert path.read_bytes() == damaged


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"it has no run\.db"):
        RunStore(tmp_path, read_only=True)
    (tmp_path / "run.db").write_bytes(b"")
    with pytest.raises(StoreError, match=r"no run in .* yet"):
        RunStore(tmp_path, read_only=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be made"):
        RunStore(tmp_path / "file")


def test_numbers_that_sqlite_cannot_hold_are_no_crash(folder: Path) -> None:
    with RunStore(folder, read_only=True) as store, pytest.raises(StoreError, match="cannot be read"):
        store.rows("SELECT * FROM plays WHERE seed = ?", (10**30,))


def test_a_full_disk_keeps_what_was_written_and_says_what_to_do(folder: Path) -> None:
    with RunStore(folder) as store:
        pages = store.row("PRAGMA page_count")
        assert pages is not None
        store.rows(f"PRAGMA max_page_count = {pages['page_count'] + 1}")  # SQLite's own way of a full disk
        with pytest.raises(StoreError, match=r"the disk refuses .* is kept; free space and start the same command"):
            store.put("notes", {"rollout": 1, "position": 0, "kind": "a", "message": "b"},
                      {"rollout": 1, "position": 1, "kind": "a", "message": "x" * 1_000_000})  # fmt: skip
        assert store.rows("SELECT * FROM notes") == []
        assert list(store.plays(2, "plain")) == ["play/2/1/plain/0"]
        store.put("notes", {"rollout": 1, "position": 0, "kind": "a", "message": "b"})
        assert len(store.rows("SELECT * FROM notes")) == 1


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere; so it gives that up for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users as POSIX has them")
def test_a_folder_that_cannot_be_written_to_can_be_read(folder: Path) -> None:
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    with as_nobody():
        if not os.access(folder / "run.db", os.R_OK, effective_ids=True):
            pytest.skip("the folder of temporary files is closed to other users")
        with RunStore(folder, read_only=True) as store:
            assert list(store.plays(2, "plain")) == ["play/2/1/plain/0"]
        with pytest.raises(StoreError, match="readonly database"):
            RunStore(folder)
    folder.chmod(0o755)
