"""A run as a picture (matplotlib, extra ``plot``) and as TensorBoard scalars (extra ``sb3``)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.curriculum.run_history import GROUPS, Curves, History, curves
from spade_gym.errors import SpadeError

_MOST_POINTS = 50_000
#: Where legends cover no curve: above the axes, one beside another.
_ABOVE = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 4, "fontsize": "small", "frameon": False}
_COLOURS = ("#2a9d58", "#e9b23c", "#c0483e", "#b9bec4")


def plot(history: History, path: Path | str, *, title: str = "") -> Path:
    """Draw what was played when, win rate and regret over time, and what tasks these and the memory's are.

    Args:
        history: A run (``read_history``).
        path: The picture; its ending says the format (png, svg, pdf).
        title: Of the picture.

    Returns:
        The path.

    Raises:
        SpadeError: matplotlib is not installed, or does not know the format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SpadeError("the picture needs matplotlib: pip install 'spade-gym[plot]'") from error
    found = curves(history)
    figure = Figure(figsize=(9, 10), layout="constrained")
    played, rates, tasks, memory = figure.subplots(4, 1, height_ratios=(4, 3, 3, 0.6))
    rates.sharex(played)
    tasks.sharex(played)
    _draw_plays(played, history)
    _draw_rates(rates, found)
    tasks.stackplot(found.times, *(found.groups[name] for name in GROUPS), labels=GROUPS, colors=_COLOURS)
    tasks.set(ylabel="tasks played", xlabel=found.unit)
    tasks.legend(**_ABOVE)
    _draw_memory(memory, history)
    figure.suptitle(title or f"{len(history.times)} plays of {len(history.ids)} tasks")
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise SpadeError(f"the picture cannot be written to {path}: {error}") from error
    return Path(path)


def _draw_plays(axes: Any, history: History) -> None:
    every = -(-len(history.times) // _MOST_POINTS)
    low, high = float(history.returns.min()), float(history.returns.max())
    points = axes.scatter(
        history.times[::every], history.tasks[::every], c=history.returns[::every], s=4, linewidths=0, cmap="viridis",
        vmin=low, vmax=high if high > low else low + 1, rasterized=True,
    )  # fmt: skip
    axes.set(ylabel="task, by first play")
    axes.figure.colorbar(points, ax=axes, label="return")


def _draw_rates(axes: Any, found: Curves) -> None:
    axes.plot(found.times, found.win_rate, label="win rate", color="#2a6fb0")
    known = ~np.isnan(found.regret)
    wide = bool(np.nanmax(np.abs([*found.mean_return, 0.0])) > 1.0)  # then both would not fit one scale
    returns = axes.twinx() if wide else axes
    lines = returns.plot(found.times, found.mean_return, label="mean return", color="#7a5aa6", linestyle=":")
    if known.any():
        lines += returns.plot(
            found.times[known], found.regret[known], "o-", markersize=3, label="hint regret", color="#c0483e"
        )
    axes.legend(handles=[*axes.lines, *(lines if wide else [])], **_ABOVE)
    axes.set(ylabel="win rate, without hint" if wide else "of plays without hint", ylim=(-0.05, 1.05) if wide else None)
    if wide:
        returns.set(ylabel="return")


def _draw_memory(axes: Any, history: History) -> None:
    left = 0
    for name, colour in zip(GROUPS, _COLOURS, strict=True):
        count = history.memory[name]
        bar = axes.barh([0], [count], left=left, color=colour)
        axes.bar_label(bar, [str(count) if count else ""], label_type="center", fontsize="small")
        left += count
    axes.set(yticks=[], xlabel=f"records in the memory at the end: {left}")


def write_scalars(history: History, folder: Path | str) -> int:
    """Write the numbers over time as TensorBoard scalars ``curriculum/…``, with the time as the step.

    Args:
        history: A run (``read_history``).
        folder: Where TensorBoard looks.

    Returns:
        How many numbers were written.

    Raises:
        SpadeError: tensorboard is not installed.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise SpadeError("scalars need tensorboard: pip install 'spade-gym[sb3]'") from error
    writer = EventFileWriter(str(folder))
    count, now = 0, time.time()
    for name, step, value in curves(history).scalars():
        item = Summary.Value(tag=f"curriculum/{name}", simple_value=value)
        writer.add_event(Event(wall_time=now, step=step, summary=Summary(value=[item])))
        count += 1
    writer.close()
    return count
