"""``spade-gym doctor``: which isolation works on this machine, as found by attacking it from inside."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from spade_gym.cli.check_report import dump, plain
from spade_gym.cli.judge import add_isolation_argument
from spade_gym.cli.terminal import bold, table, visible, width, wrap

if TYPE_CHECKING:
    from spade_gym.sandbox.doctor import DoctorReport, LevelReport, ProbeResult

_SECURE = ("L3", "L2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``doctor``."""
    parser.add_argument("--json", action="store_true", help="print one object")
    add_isolation_argument(parser)
    parser.epilog = (
        "Exit status: 0 when L3 or L2 works (or the level named by --isolation) and every attack ended as it should; 1 "
        "otherwise."
    )


def run(args: argparse.Namespace, *, report: DoctorReport | None = None) -> int:
    """Probe this machine and print what was found.

    Args:
        args: The parsed arguments.
        report: What was found; by default the machine is probed.
    """
    if report is None:
        from spade_gym.sandbox.doctor import diagnose

        report = diagnose()
    healthy = is_healthy(report, args.isolation)
    if args.json:
        print(dump({**to_json(report), "healthy": healthy}))
    else:
        print(describe(report, level=args.isolation, columns=width()))
        print(f"\n{_conclusion(report, healthy=healthy)}")
    return 0 if healthy else 1


def _conclusion(report: DoctorReport, *, healthy: bool) -> str:
    if not healthy:
        return "not as it should be; see above"
    if report.default != _SECURE[0]:
        return f"all is well at {report.default}; for {_SECURE[0]} see its reason above"
    return "all is well"


def is_healthy(report: DoctorReport, level: str | None) -> bool:
    """Tell whether programs can be isolated, by default or at one level, and every probe ended as expected."""
    if level is None:
        levels = [item for item in report.levels if item.available]
        return report.default in _SECURE and bool(levels) and all(not _surprises(item) for item in levels)
    chosen = [item for item in report.levels if item.level == level]
    return bool(chosen) and all(item.available and not _surprises(item) for item in chosen)


def to_json(report: DoctorReport) -> dict[str, Any]:
    """Return the report as a JSON object; fields of named tuples and dataclasses become keys."""
    record: dict[str, Any] = _plain(report)
    return record


def describe(report: DoctorReport, *, level: str | None, columns: int) -> str:
    """Lay out the report for a person.

    Args:
        report: What was found.
        level: Show this level only, with all its probes; ``None`` shows all levels and the surprises.
        columns: Length of the longest line.
    """
    lines = [
        f"python {report.python}, kernel {report.kernel}, {report.machine}, uid {report.uid}",
        f"default isolation: {report.default or 'none; programs are refused'}",
    ]
    for item in report.levels:
        if level is None or item.level == level:
            lines.extend(["", *_level(item, detailed=level is not None, columns=columns)])
    return "\n".join(lines)


def _level(item: LevelReport, *, detailed: bool, columns: int) -> list[str]:
    state = "works" if item.available else "not available"
    lines = [f"{bold(item.level)}  {state}" + (f", {len(item.probes)} probes" if item.probes else "")]
    if item.reason:
        lines.append(wrap(item.reason, columns=columns, indent="    "))
    surprises = _surprises(item)
    if item.available and item.probes and not surprises:
        lines.append("    every probe ended as expected")
    if surprises:
        lines.append(f"    {len(surprises)} probes did NOT end as expected:")
    shown = item.probes if detailed else surprises
    if shown:
        rows = [(probe.name, probe.expected, probe.outcome, probe.detail) for probe in shown]
        block = table(rows, header=("probe", "expected", "outcome", "detail"), columns=columns - 4)
        lines.extend("    " + line for line in block.split("\n"))
    return [visible(line) if "\x1b[1m" not in line else line for line in lines]


def _surprises(item: LevelReport) -> list[ProbeResult]:
    return [probe for probe in item.probes if probe.outcome != probe.expected]


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return plain(value)
