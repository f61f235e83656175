import os

import pytest

from spade_gym.errors import PoolError
from spade_gym.plain_file import open_plain, read_file, read_text, shown

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")


def test_a_regular_file_up_to_its_bound(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert read_file(tmp_path / "a", max_bytes=3) == b"abc"
    with pytest.raises(PoolError, match="larger than the 2 bytes"):
        read_file(tmp_path / "a", max_bytes=2)


def test_a_huge_file_is_not_read_whole(tmp_path):
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PoolError, match="larger"):
        read_file(tmp_path / "huge", max_bytes=10)


@posix
def test_what_is_no_regular_file_is_not_even_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "named pipe"), (tmp_path, "folder"), ("/dev/zero", "device")):
        for follow in (False, True):
            with pytest.raises(PoolError, match=f"no regular file but a {kind}"):
                open_plain(path, follow=follow)
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(PoolError, match="device"):
        open_plain(tmp_path / "link", follow=True)


def test_links_are_followed_only_on_demand(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to("loop")
    assert read_file(tmp_path / "link", max_bytes=3, follow=True) == b"abc"
    with pytest.raises(PoolError, match=r"symbolic link.*name the file that it leads to"):
        read_file(tmp_path / "link", max_bytes=3)
    for follow in (False, True):
        with pytest.raises(PoolError):
            read_file(tmp_path / "loop", max_bytes=3, follow=follow)


@pytest.mark.parametrize("name", ["nowhere", "a\0b", "x" * 5000, "\ud800"])
def test_what_cannot_be_opened_is_one_error(tmp_path, name):
    with pytest.raises(PoolError, match="cannot be read"):
        read_file(tmp_path / name, max_bytes=3)


def test_text_is_utf8(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(PoolError, match="UTF-8"):
        read_text(tmp_path / "a", max_bytes=3)


def test_no_descriptor_is_left_open(tmp_path):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc here")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(PoolError):
            open_plain(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_any_value_can_be_shown():
    assert shown("x" * 100, limit=5) == "'xxxx… (102 characters)"
    assert "too large" in shown(10**5000)
    assert shown("\ud800") == repr("\ud800")
