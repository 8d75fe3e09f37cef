"""Owns the plot of benchmarks.report: iteration times by batch, above the floor."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.reports.records import Record, Row, batches, modes

PLOTTED = {"unguided": "#4e79a7", "20 % guided": "#59a14f", "guided": "#e6842a"}


def plotted(records: Sequence[Record]) -> list[Row]:
    """Rows of the plot: those of the first record that has an unguided mode."""
    rows = next(
        (
            record.rows
            for record in records
            if record.kind == "iteration" and "unguided" in modes(record.rows)
        ),
        [],
    )
    return [row for row in rows if row["mode"] in PLOTTED]


def digest(rows: Sequence[Row]) -> str:
    """Written into the plot, so that it is known to be of these rows."""
    return "rows " + hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Median with a whisker up to p99, by batch, above the floor."""
    try:
        import matplotlib
    except ImportError:
        sys.exit('drawing needs matplotlib: pip install "specguide[plot]"')
    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update(
        {"svg.hashsalt": "specguide", "svg.fonttype": "none", "font.size": 9}
    )
    figure, axes = pyplot.subplots(figsize=(6, 3.2))
    sizes = batches(rows)
    _draw_modes(axes, rows, sizes)
    floors = {row["batch_size"]: row["floor_ms"] for row in rows}
    axes.plot(
        [sizes.index(size) for size in sorted(floors)],
        [floors[size] for size in sorted(floors)],
        "--",
        color="#777777",
        label="floor",
    )
    axes.set(
        xticks=range(len(sizes)),
        xticklabels=map(str, sizes),
        xlabel="batch",
        ylim=(0, None),
        ylabel="iteration, ms: median, whisker to p99",
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Description": digest(rows)})


def _draw_modes(axes: Any, rows: Sequence[Row], sizes: list[int]) -> None:
    """The points of each mode, beside those of the others of the same batch."""
    for offset, (mode, color) in zip((-0.06, 0, 0.06), PLOTTED.items(), strict=True):
        points = {row["batch_size"]: row for row in rows if row["mode"] == mode}
        if points:
            medians = [row["median_ms"] for row in points.values()]
            above = [max(row["p99_ms"] - row["median_ms"], 0) for row in points.values()]
            axes.errorbar(
                [sizes.index(size) + offset for size in points],
                medians,
                [[0] * len(above), above],
                marker="o",
                markersize=4,
                capsize=3,
                color=color,
                label=mode,
            )
