import os

import pytest

from spade_gym.errors import ManifestError, PoolError, SpadeError
from spade_gym.locate import locate
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program

SOURCE = """class CoinEnv:
    def reset(self, seed=None):
        return "x", {}

    def step(self, action):
        return "x", 0.0, True, False, {}
"""


@pytest.fixture
def entry(tmp_path):
    program = Program(SOURCE, Manifest(name="Coin", setting="multi_turn", class_name="CoinEnv"))
    return Pool(tmp_path / "pool").add(program)


def test_a_folder_and_a_file_are_read(entry, tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "reply.md").write_text(f"```python\n{SOURCE}```\n" + "thinking " * 200_000)
    assert locate(entry).digest == locate(entry / "program.py").digest == locate(tmp_path / "mine.py").digest
    with pytest.raises(SpadeError, match=r"characters"):
        locate(tmp_path / "reply.md")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.parametrize("name", ["program.py", "manifest.toml"])
@pytest.mark.parametrize("kind", ["pipe", "link", "dangling", "device", "folder", "huge"])
def test_nothing_but_regular_files_of_the_folder_is_read(entry, tmp_path, name, kind):
    path = entry / name
    (tmp_path / "outside").write_bytes(path.read_bytes())
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.touch()
        os.truncate(path, 3 << 30)
    else:
        path.symlink_to({"link": tmp_path / "outside", "dangling": "nowhere", "device": "/dev/zero"}[kind])
    for key in (entry, entry / "program.py"):
        with pytest.raises(ManifestError, match=r"link|no regular file|larger|cannot be read"):
            locate(key)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_nothing_but_a_bounded_regular_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "huge.py").touch()
    os.truncate(tmp_path / "huge.py", 3 << 30)
    (tmp_path / "loop.py").symlink_to("loop.py")
    for path in ("/dev/zero", *map(str, sorted(tmp_path.iterdir()))):
        with pytest.raises(ManifestError, match=r"link|no regular file|larger"):
            locate(path)


@pytest.mark.parametrize(
    "key", ["", "x" * 256, "x" * 5000, "spade/" + "x" * 5000, "a/" * 3000, "a\0b", "\ud800", "é" * 200]
)
def test_a_key_that_is_no_name_is_explained(key):
    with pytest.raises(PoolError, match=r"no program|empty text"):
        locate(key)


@pytest.mark.parametrize("key", [None, 5, b"x", ["x"], 2.5])
def test_a_key_of_the_wrong_kind_is_named(key):
    with pytest.raises(TypeError, match=f"got {type(key).__name__}"):
        locate(key)


def test_messages_about_the_bundled_programs_name_no_path():
    with pytest.raises(PoolError, match=r"no program 'OddCoyn' among the [0-9]+ of the bundled programs.*mean OddCoin"):
        locate("OddCoyn")
