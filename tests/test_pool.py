import multiprocessing
import os
import sys
import time

import pytest

from spade_gym.errors import PoolError
from spade_gym.pool import Pool, registries, registry
from spade_gym.pool_entry import TEMPORARY_PREFIX
from spade_gym.programs.program import MAX_SOURCE_BYTES, Manifest, Program, digest_of

SOURCE = "class CoinEnv:\n    pass\n"


def make(source=SOURCE, name="Coin", **changes):
    return Program(source=source, manifest=Manifest(name=name, setting="multi_turn", class_name="CoinEnv", **changes))


def write_entry(pool, folder, *, source=SOURCE, name="Coin", digest=None):
    target = pool / folder
    target.mkdir(parents=True)
    (target / "program.py").write_bytes(source.encode())
    digest = digest_of(source) if digest is None else digest
    (target / "manifest.toml").write_text(
        f'name = "{name}"\nsetting = "multi_turn"\nclass_name = "CoinEnv"\ndigest = "{digest}"\n'
    )
    return target


def test_what_is_added_comes_back_by_name_digest_and_prefix(tmp_path):
    pool = Pool(tmp_path / "pool")
    program = make(hint="go left ✓", commands=("go {1..3}",), kwargs={"size": 3}, origin={"kind": "test"})
    folder = pool.add(program)
    assert folder == tmp_path / "pool" / program.digest
    assert pool.get("Coin") == pool.get(program.digest) == pool.get(program.digest[:8].upper()) == program
    assert list(pool) == [program]
    assert pool.names() == ("Coin",)
    assert len(pool) == 1
    assert pool.verify() == ()


def test_adding_twice_changes_nothing(tmp_path):
    pool = Pool(tmp_path)
    first = pool.add(make())
    stamps = [path.stat().st_mtime_ns for path in sorted(first.iterdir())]
    assert pool.add(make()) == first
    assert [path.stat().st_mtime_ns for path in sorted(first.iterdir())] == stamps
    assert os.listdir(tmp_path) == [first.name]


def test_the_first_manifest_of_a_source_stays_until_it_is_replaced(tmp_path):
    pool = Pool(tmp_path)
    pool.add(make(hint="one"))
    pool.add(make(hint="two"))
    assert pool.get("Coin").manifest.hint == "one"
    pool.add(make(hint="two"), replace=True)
    assert pool.get("Coin").manifest.hint == "two"
    assert len(os.listdir(tmp_path)) == 1


def test_a_friendly_folder_name_is_the_same_entry(tmp_path):
    folder = write_entry(tmp_path, "coin")
    pool = Pool(tmp_path)
    assert pool.add(make()) == folder
    assert pool.get("Coin").digest == digest_of(SOURCE)
    assert pool.get(digest_of(SOURCE)).name == "Coin"
    assert len(pool) == 1


def test_a_name_of_two_programs_is_refused_with_both_digests(tmp_path):
    pool = Pool(tmp_path)
    one, two = make(), make(SOURCE + "# two\n")
    pool.add(one)
    pool.add(two)
    with pytest.raises(PoolError, match="names 2 programs") as caught:
        pool.get("Coin")
    assert one.digest in str(caught.value)
    assert two.digest in str(caught.value)
    assert pool.get(two.digest[:12]) == two
    assert pool.names() == ("Coin",)


@pytest.mark.parametrize("key", ["Coi", "", "../Coin", "/etc", "abcdef1", "x" * 5000, "a\0b"])
def test_an_unknown_key_is_explained(tmp_path, key):
    pool = Pool(tmp_path)
    pool.add(make())
    with pytest.raises(PoolError, match="at least 8 digits"):
        pool.get(key)


def test_the_nearest_name_is_suggested(tmp_path):
    Pool(tmp_path).add(make())
    with pytest.raises(PoolError, match="Did you mean Coin"):
        Pool(tmp_path).get("Coyn")


def test_there_is_no_pool(tmp_path):
    with pytest.raises(PoolError, match="no readable pool"):
        list(Pool(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(PoolError, match="cannot be written"):
        Pool(tmp_path / "file").add(make())


def test_an_edited_source_is_damaged_and_names_its_entry(tmp_path):
    pool = Pool(tmp_path)
    folder = pool.add(make())
    other = make(SOURCE + "# other\n", name="Other")
    pool.add(other)
    (folder / "program.py").write_text("class CoinEnv: ...\n")
    with pytest.raises(PoolError, match="edited"):
        pool.get("Coin")
    with pytest.raises(PoolError, match="edited"):
        list(pool)
    with pytest.raises(PoolError, match="edited"):
        pool.add(make())
    assert pool.get("Other") == other
    ((entry, problem),) = pool.verify()
    assert entry == folder.name
    assert "edited" in problem


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("manifest.toml", b"name = ", "TOML"),
        ("manifest.toml", b"a = " + b"[" * 100_000, "manifest"),
        ("manifest.toml", b"a = " + b"9" * 100_000, "manifest"),
        ("manifest.toml", b"x" * 300_000, "larger"),
        ("manifest.toml", b"\xff", "UTF-8"),
        ("manifest.toml", b'name = "Coin"\nsetting = "multi_turn"\nclass_name = "CoinEnv"\n', "digest"),
        ("program.py", b"x" * (MAX_SOURCE_BYTES + 1), "larger"),
        ("program.py", b"\xff\xfe", "UTF-8"),
        ("program.py", None, "cannot be read"),
        ("manifest.toml", None, "cannot be read"),
    ],
)
def test_a_malformed_entry_is_refused(tmp_path, name, content, reason):
    folder = Pool(tmp_path).add(make())
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    ((_, problem),) = Pool(tmp_path).verify()
    assert reason in problem


def test_a_folder_named_by_another_digest_is_damaged(tmp_path):
    write_entry(tmp_path, "0" * 64)
    ((_, problem),) = Pool(tmp_path).verify()
    assert "named by another digest" in problem


def test_the_same_source_in_two_folders_is_reported(tmp_path):
    write_entry(tmp_path, "a")
    write_entry(tmp_path, "b")
    ((entry, problem),) = Pool(tmp_path).verify()
    assert (entry, "'a'" in problem) == ("b", True)
    assert len(list(Pool(tmp_path))) == 1


@pytest.mark.parametrize("name", ["program.py", "manifest.toml"])
def test_a_linked_file_is_not_followed(tmp_path, name):
    folder = Pool(tmp_path / "pool").add(make())
    (folder / name).rename(tmp_path / "secret")
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(PoolError, match="link"):
        Pool(tmp_path / "pool").get("Coin" if name == "program.py" else make().digest)
    assert len(Pool(tmp_path / "pool").verify()) == 1


def test_a_linked_folder_is_not_followed(tmp_path):
    write_entry(tmp_path, "outside")
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "coin").symlink_to(tmp_path / "outside")
    with pytest.raises(PoolError, match="link"):
        list(Pool(tmp_path / "pool"))


@pytest.mark.parametrize("name", ["program.py", "manifest.toml"])
def test_a_folder_in_the_place_of_a_file_is_one_damage(tmp_path, name):
    pool = Pool(tmp_path)
    sound = pool.add(make(SOURCE + "# sound\n", name="Sound"))
    (pool.add(make()) / name).unlink()
    (tmp_path / make().digest / name).mkdir()
    survey = pool.survey()
    assert [program.name for program in survey.programs] == ["Sound"]
    ((entry, problem),) = survey.damages
    assert (entry, "no regular file but a folder" in problem) == (make().digest, True)
    assert pool.get("Sound").digest == sound.name
    assert pool.add(make(SOURCE + "# more\n", name="More")).exists()


def test_a_writer_that_finds_the_disk_full_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PoolError, match="No space left"):
        Pool(tmp_path).add(make())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        (lambda: Pool(None), TypeError, "path of a pool must be a path as text or pathlib.Path, got NoneType"),
        (lambda: Pool(5), TypeError, "got int: 5"),
        (lambda: Pool(b"pool"), TypeError, "bytes"),
        (lambda: Pool(""), PoolError, "path of a pool is empty"),
        (lambda: Pool("a\0b"), PoolError, "zero character"),
        (lambda: Pool(".").get(5), TypeError, "named by text, got int: 5"),
        (lambda: Pool(".").add("x"), TypeError, "got str: 'x'"),
        (lambda: list(Pool("x" * 5000)), PoolError, "no readable pool"),
        (lambda: Pool("x" * 5000).add(make()), PoolError, "cannot be written"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(call, error, reason):
    with pytest.raises(error, match=reason):
        call()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_does_not_hang_the_reader(tmp_path):
    folder = Pool(tmp_path).add(make())
    (folder / "program.py").unlink()
    os.mkfifo(folder / "program.py")
    with pytest.raises(PoolError, match="no regular file"):
        list(Pool(tmp_path))


def test_a_program_that_is_too_large_is_not_added(tmp_path):
    with pytest.raises(PoolError, match="at most"):
        Pool(tmp_path).add(make("#" * (MAX_SOURCE_BYTES + 1)))
    assert os.listdir(tmp_path) == []


def test_leftovers_of_a_killed_writer_are_ignored_and_removed_when_old(tmp_path):
    old, young = tmp_path / f"{TEMPORARY_PREFIX}1-old", tmp_path / f"{TEMPORARY_PREFIX}2-young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "program.py").write_text("half")
    os.utime(old, (time.time() - 7200,) * 2)
    pool = Pool(tmp_path)
    assert (list(pool), pool.verify()) == ([], ())
    pool.add(make())
    assert not old.exists()
    assert young.exists()


def test_a_writer_that_finds_the_place_taken_keeps_what_is_there(tmp_path):
    pool = Pool(tmp_path)
    folder = pool.add(make(hint="first"))
    assert pool._publish(folder.name, {"program.py": b"late", "manifest.toml": b"late"}) == folder
    assert pool.get("Coin").manifest.hint == "first"
    assert os.listdir(tmp_path) == [folder.name]


def _write_many(path, start, ready):
    pool = Pool(path)
    ready.wait(30)
    for number in range(start, start + 30):
        pool.add(make(SOURCE + f"# {number}\n", name=f"Coin{number}"))
        for program in pool:
            assert program.name.startswith("Coin")


def test_many_writers_and_readers_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    workers = [context.Process(target=_write_many, args=(tmp_path, start, ready)) for start in (0, 0, 15)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    pool = Pool(tmp_path)
    assert pool.verify() == ()
    assert pool.names() == tuple(sorted(f"Coin{number}" for number in range(45)))
    assert len(os.listdir(tmp_path)) == 45


def test_the_registry_is_read_only_and_its_own_files_are_no_entries():
    pool = registry()
    assert pool.path.name == "spade_registry"
    with pytest.raises(PoolError, match="not written"):
        pool.add(make())
    assert all((folder / "manifest.toml").exists() for folder in pool._folders() if folder.name != "__pycache__")


def test_a_third_party_registry_is_found_and_may_consist_of_links(tmp_path, monkeypatch):
    site = tmp_path / "site"
    write_entry(site, "their_programs/coin")
    (site / "their_programs" / "__init__.py").write_text("")
    source = site / "their_programs" / "coin" / "program.py"
    source.rename(tmp_path / "cache.py")
    source.symlink_to(tmp_path / "cache.py")
    info = site / "their_programs-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-programs\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[spade_gym.registries]\ntheirs = their_programs\n")
    monkeypatch.syspath_prepend(site)
    try:
        assert registries()["theirs"].get("Coin").digest == digest_of(SOURCE)
    finally:
        sys.modules.pop("their_programs", None)


def test_the_registries_hold_the_bundled_one():
    assert registries()["spade"].path == registry().path
