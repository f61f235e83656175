"""What the demo's runs came to: a table for the terminal and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spade_trainers.small.run_arm import WATCHED
from spade_trainers.small.story import Epoch, epochs_of, measured
from spade_trainers.small.suite import TIERS


def lines(folders: Mapping[str, Path]) -> Iterator[str]:
    """Say what happened, run by run.

    Args:
        folders: Of the runs, by name.
    """
    for name, folder in folders.items():
        epochs = epochs_of(folder)
        yield name
        heads = zip(("items in an answer", "win rate", "in the band", "regret"), (20, 11, 13, 9), strict=True)
        yield f"   {'epoch':<8}{'programs':<12}" + "".join(f"{head:>{width}}" for head, width in heads)
        for epoch in epochs:
            programs = "+".join(map(str, epoch.programs.values()))
            yield (
                f"   {epoch.epoch:<8}{programs:<12}{epoch.length:>20.1f}{_number(epoch.win_rate):>11}"
                f"{_number(epoch.in_band):>13}{_number(epoch.regret, '+.2f'):>9}"
            )
        taught = [epoch.taught for epoch in epochs if epoch.taught is not None]
        if taught:
            yield f"   replies of the designer with an advantage other than zero: {sum(taught) / len(taught):.0%}"
        points = list(measured(folder, WATCHED))
        if points:
            (first, before), (last, after) = points[0], points[-1]
            told = " · ".join(f"{tier} {before[tier]:.2f} → {after[tier]:.2f}" for tier in TIERS)
            yield f"   suite, after {first} → {last} updates: {told}"
        yield ""


def draw(folders: Mapping[str, Path], out: Path) -> Path:
    """Draw the runs beside one another; returns the picture's path.

    Args:
        folders: Of the runs, by name.
        out: Where the picture goes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplots(2, 3)
    for number, (name, folder) in enumerate(folders.items()):
        epochs = epochs_of(folder)
        style = {"color": f"C{number}", "label": name, "marker": "o", "markersize": 3}
        for place, (title, values) in zip(axes[0], _curves(epochs).items(), strict=True):
            place.plot([epoch.epoch for epoch in epochs], values, **style)
            place.set(title=title, xlabel="pool")
        points = list(measured(folder, WATCHED))
        for place, tier in zip(axes[1], TIERS, strict=True):
            place.plot([point for point, _ in points], [tiers[tier] for _, tiers in points], **style)
            lengths = ", ".join(map(str, TIERS[tier]))
            place.set(title=f"suite, {tier} ({lengths} items): share won", xlabel="updates", ylim=(0, 1))
    axes[0][1].axhspan(0.4, 0.6, color="C2", alpha=0.15)
    axes[0][1].set_ylim(0, 1)
    axes[0][0].legend()
    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.png"
    figure.savefig(path, dpi=110)
    return path


def _curves(epochs: list[Epoch]) -> dict[str, list[Any]]:
    return {
        "what the designer asks for: items in an answer": [epoch.length for epoch in epochs],
        "win rate in play (shaded: the target)": [epoch.win_rate for epoch in epochs],
        "hint regret": [epoch.regret for epoch in epochs],
    }


def _number(value: float | None, form: str = ".2f") -> str:
    return "?" if value is None else format(value, form)
