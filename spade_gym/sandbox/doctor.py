"""Which isolation works on this machine? Found by attacking it from inside real workers, not by return codes."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from spade_gym.errors import SandboxError
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.kernel import landlock_version
from spade_gym.sandbox.launch import bubblewrap_path
from spade_gym.sandbox.probe import Probe
from spade_gym.sandbox.probe_fixture import Fixture
from spade_gym.sandbox.probes import QUICK
from spade_gym.sandbox.zygotes import zygote_pool


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What came of one attack.

    Attributes:
        name: The probe's name.
        expected: ``blocked`` or ``open``.
        outcome: ``blocked`` or ``open``.
        detail: What the probe was after, and how it went.
    """

    name: str
    expected: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What was found at one level.

    Attributes:
        level: ``L3`` to ``L0``.
        available: Whether workers of this level can be had.
        reason: Why not, or what the level does not protect from.
        probes: The attacks; empty when the level is not available.
    """

    level: str
    available: bool
    reason: str
    probes: tuple[ProbeResult, ...]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What isolation this machine offers.

    Attributes:
        levels: Strongest first.
        default: The level used when none is named; ``None`` when programs are refused.
        python: Version.
        kernel: Name and release.
        machine: Processor architecture.
        uid: User number; 0 is the superuser.
        bubblewrap: Where ``bwrap`` is, or ``None``.
        landlock_abi: Version of Landlock in this kernel; 0 where there is none.
    """

    levels: tuple[LevelReport, ...]
    default: str | None
    python: str
    kernel: str
    machine: str
    uid: int
    bubblewrap: str | None
    landlock_abi: int


_REMARKS = {
    Isolation.L3: "",
    Isolation.L2: "a program can learn which files exist",
    Isolation.L1: "no protection of files, processes or the network; only by name, for programs that you trust",
    Isolation.L0: "no protection at all; only by name, for programs that you wrote",
}


def diagnose(level: Isolation | str | None = None) -> DoctorReport:
    """Probe this machine.

    Args:
        level: Probe this level only; absent: all of them.
    """
    chosen = Isolation.parse(level)
    levels = sorted(Isolation, reverse=True) if chosen is None else [chosen]
    reports = tuple(_examine(item) for item in levels)
    return DoctorReport(
        levels=reports,
        default=_default(reports),
        python=platform.python_version(),
        kernel=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        uid=os.getuid(),
        bubblewrap=bubblewrap_path(),
        landlock_abi=landlock_version(),
    )


def _default(reports: tuple[LevelReport, ...]) -> str | None:
    """The stronger of L3 and L2 that works, whichever level was asked about."""
    known = {report.level: report.available for report in reports}
    for candidate in (Isolation.L3, Isolation.L2):
        if known[candidate.name] if candidate.name in known else obstacle(candidate) == "":
            return candidate.name
    return None


def _examine(level: Isolation) -> LevelReport:
    reason = obstacle(level)
    if reason:
        return LevelReport(level.name, False, reason, ())
    with Fixture(level) as fixture:
        results = tuple(_result(fixture, probe) for probe in QUICK if _expected(probe, level) != "unsafe")
    return LevelReport(level.name, True, _REMARKS[level], results)


def obstacle(level: Isolation) -> str:
    """Why no worker of a level can be had; ``""`` when one can."""
    if level is Isolation.L0:
        return ""
    try:
        worker = zygote_pool().fork(level, "standard", 0, Limits())
        try:
            worker.await_ready()
        finally:
            worker.kill()
    except SandboxError as error:
        return str(error)
    return ""


def _expected(probe: Probe, level: Isolation) -> str:
    return probe.expected(level, privileged=os.getuid() == 0)


def _result(fixture: Fixture, probe: Probe) -> ProbeResult:
    attempt = fixture.attempt(probe)
    expected = _expected(probe, fixture.level)
    if expected == "varies":  # with the machine's settings, which are none of the sandbox's business
        expected = attempt.outcome
    how = attempt.reached if attempt.outcome == "open" else f"{attempt.ending}: {attempt.detail}"
    return ProbeResult(probe.name, expected, attempt.outcome, f"{probe.goal}: {how}")
