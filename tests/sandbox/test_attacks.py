"""Every probe, at every level that this machine supports."""

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from jails import LEVELS, need

from spade_gym.sandbox.base import Isolation
from spade_gym.sandbox.probe import Probe
from spade_gym.sandbox.probe_fixture import Fixture
from spade_gym.sandbox.probes import PROBES, QUICK

_ROOT = os.getuid() == 0
_NOBODY = 65534
_CASES = [
    pytest.param(level, probe, id=f"{level}-{probe.name}")
    for level in LEVELS
    for probe in PROBES
    if probe.expected(Isolation[level], privileged=_ROOT) != "unsafe"
]


@pytest.fixture(scope="module")
def fixtures() -> Iterator[dict[str, Fixture]]:
    with contextlib.ExitStack() as stack:
        made: dict[str, Fixture] = {}
        yield _Lazily(made, stack)
    made.clear()


class _Lazily(dict[str, Fixture]):
    def __init__(self, made: dict[str, Fixture], stack: contextlib.ExitStack) -> None:
        super().__init__(made)
        self._stack = stack

    def __missing__(self, level: str) -> Fixture:
        self[level] = self._stack.enter_context(Fixture(Isolation[level]))
        return self[level]


def test_the_table_is_what_was_promised() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES) >= 50
    assert all(probe.l3 == "blocked" for probe in PROBES)
    assert {probe.name for probe in PROBES if probe.l2 != "blocked"} == {"stat_file"}
    assert 12 <= len(QUICK) <= 20


@pytest.mark.parametrize(("level", "probe"), _CASES)
def test_a_probe_ends_as_expected(level: str, probe: Probe, fixtures: dict[str, Fixture]) -> None:
    need(level)
    attempt = fixtures[level].attempt(probe)
    expected = probe.expected(Isolation[level], privileged=_ROOT)
    if expected != "varies":
        assert attempt.outcome == expected, f"{probe.goal}: {attempt}"
    if expected == "blocked" and level != "L0" and probe.ends != "any":
        assert attempt.ending == probe.ends, f"{probe.goal}: {attempt}"


@pytest.mark.skipif(not _ROOT, reason="these tests then run as an ordinary user anyway")
@pytest.mark.parametrize("level", ["L3", "L2", "L1"])
def test_an_ordinary_user_is_as_safe(level: str, readable_copy: Path) -> None:
    need(level)
    report = json.loads(_run_as_nobody(readable_copy, level))
    assert report["uid"] == _NOBODY
    if report["obstacle"]:
        pytest.skip(f"not available to an ordinary user: {report['obstacle']}")
    assert len(report["rows"]) > 50
    assert [row for row in report["rows"] if row[1] != "varies" and row[1] != row[2]] == []


@pytest.fixture(scope="module")
def readable_copy() -> Iterator[Path]:
    """What an ordinary user must be able to read, wherever this checkout and its environment lie."""
    folder = Path(tempfile.mkdtemp(prefix="spade-gym-readable-"))
    folder.chmod(0o755)
    try:
        for name in ("spade_gym", "msgspec", "tomli_w"):
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            shutil.copytree(Path(spec.origin).parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(Path(__file__).with_name("attack_as_user.py"), folder)
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def _run_as_nobody(folder: Path, level: str) -> str:
    with tempfile.TemporaryDirectory(prefix="spade-gym-home-") as home:
        os.chown(home, _NOBODY, _NOBODY)
        python = _interpreter_for_everybody(folder, home)
        command = [python, "-B", str(folder / "attack_as_user.py"), str(folder / "spade_gym"), level]
        done = subprocess.run(command, **_as_nobody(folder, home), timeout=100)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def _as_nobody(folder: Path, home: str) -> dict[str, object]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "HOME": home, "TMPDIR": home}
    return {
        "user": _NOBODY, "group": _NOBODY, "extra_groups": [], "env": environment, "cwd": "/",
        "capture_output": True, "text": True,
    }  # fmt: skip


def _interpreter_for_everybody(folder: Path, home: str) -> str:
    """This interpreter if others may run it, else the system's if it is of the same version."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [os.path.realpath(sys.executable), f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"]
    for candidate in candidates:
        with contextlib.suppress(OSError):
            command = [candidate, "-c", "import msgspec, tomli_w, json, ctypes, sqlite3"]
            done = subprocess.run(command, **_as_nobody(folder, home), timeout=30)  # type: ignore[call-overload]
            if done.returncode == 0:
                return candidate
    pytest.skip(f"no Python {version} here that an ordinary user may run: {', '.join(candidates)}")
