"""One iteration of a timeline as a picture: `specguide generate --trace out.json …`, then

    python -m benchmarks.timeline out.json --png iteration.png [--iteration 12]

Without a number it is the decode iteration of median duration. Needs matplotlib, the extra "plot".
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import argument_parser
from specguide.trace import TRACKS, Span, read_chrome_trace

FORWARD = TRACKS[0]
COLORS = {
    "wait": "#d9d9d9",
    "callback": "#e6842a",
    "copy": "#f2c14e",
    "draft": "#59a14f",
    "choose": "#8cd17d",
    "verify": "#9c6bb0",
    "target": "#4e79a7",
    "launch": "#76b7b2",
}
OTHER_COLOR = "#a0b4c8"
MIN_LABEL_SHARE = 0.008  # of the width, for each character


def bounds(spans: Sequence[Span], phase: str | None = None) -> dict[int, tuple[int, int]]:
    """Begin and end (ns) of each iteration on the forward stream, of one phase or of all."""
    found: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        if span.track == FORWARD and phase in (None, span.args["phase"]):
            found[int(span.args["iteration"])].append(span)
    return {
        iteration: (min(span.begin_ns for span in some), max(span.end_ns for span in some))
        for iteration, some in found.items()
    }


def median_iteration(spans: Sequence[Span]) -> int:
    """The decode iteration of median duration. Exits where there is none."""
    found = bounds(spans, "decode")
    if not found:
        sys.exit("this timeline has no decode iteration")
    by_duration = sorted(found, key=lambda iteration: found[iteration][1] - found[iteration][0])
    return by_duration[len(by_duration) // 2]


def plot_iteration(spans: Sequence[Span], iteration: int, path: str | Path) -> None:
    """Draw what all tracks did while the forward stream was in this iteration; the format is that
    of the path's name.

    Exits where the timeline lacks the iteration, or matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("the picture needs matplotlib: pip install 'specguide[plot]'")
    found = bounds(spans)
    if iteration not in found:
        sys.exit(f"the timeline has no iteration {iteration}; it has {min(found)} … {max(found)}")
    begin_ns, end_ns = found[iteration]
    figure = Figure(figsize=(14, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for span in spans:
        _draw(axes, span, begin_ns, end_ns)
    axes.set_yticks(range(len(TRACKS)), TRACKS)
    axes.set_ylim(len(TRACKS) - 0.5, -0.5)
    axes.set_xlim(0, (end_ns - begin_ns) / 1e3)
    axes.set_xlabel("µs since the iteration began")
    axes.set_title(
        f"iteration {iteration}: {(end_ns - begin_ns) / 1e3:.0f} µs", loc="left", fontsize=10
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _draw(axes: Any, span: Span, begin_ns: int, end_ns: int) -> None:
    """A span's part between begin_ns and end_ns, with its name where there is room."""
    left = max(span.begin_ns, begin_ns)
    right = min(span.end_ns, end_ns)
    if left >= right:
        return
    row = TRACKS.index(span.track)
    axes.broken_barh(
        [((left - begin_ns) / 1e3, (right - left) / 1e3)],
        (row - 0.4, 0.8),
        facecolor=_color(span.name),
        edgecolor="white",
        linewidth=0.5,
    )
    if right - left > MIN_LABEL_SHARE * len(span.name) * (end_ns - begin_ns):
        middle = ((left + right) / 2 - begin_ns) / 1e3
        axes.text(middle, row, span.name, ha="center", va="center", fontsize=8)


def _color(name: str) -> str:
    return COLORS.get(name.split()[0], OTHER_COLOR)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--png", type=Path, default=Path("iteration.png"))
    parser.add_argument(
        "--iteration", type=int, help="from 1; default: the median decode iteration"
    )
    args = parser.parse_args()
    spans = read_chrome_trace(args.trace)
    iteration = args.iteration if args.iteration is not None else median_iteration(spans)
    plot_iteration(spans, iteration, args.png)
    begin_ns, end_ns = bounds(spans)[iteration]
    for span in spans:
        if begin_ns <= span.begin_ns < end_ns:
            print(
                f"{(span.begin_ns - begin_ns) / 1e3:10.1f} µs  "
                f"{(span.end_ns - span.begin_ns) / 1e3:10.1f} µs  "
                f"{span.track:15} {span.name}"
            )
    print(f"wrote {args.png}")


if __name__ == "__main__":
    main()
