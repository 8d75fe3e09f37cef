"""Makes the GPU figures of docs/results.md and their plot from the records under
benchmarks/results/.

    python -m benchmarks.report [--check]

Only records made on a GPU count. With --check nothing is written: it exits with 1 if the page or
the plot does not agree with the records. Drawing needs matplotlib, the extra "plot".
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import RESULTS_DIR, argument_parser
from benchmarks.reports.lines import LINES
from benchmarks.reports.plot import digest, draw, plotted
from benchmarks.reports.records import Record, load_records

ROOT = RESULTS_DIR.parent.parent
BEGIN, END = "<!-- gpu figures, by python -m benchmarks.report -->", "<!-- end of gpu figures -->"
PAGE, PLOT = "docs/results.md", "docs/iteration.svg"


def table(records: Sequence[Record]) -> str:
    """The figures as Markdown; a line names its command if that differs from the line before."""
    lines = [
        line
        for kind, of in LINES.items()
        for record in records
        if record.kind == kind
        for line in of(record)
    ]
    rendered = ["| what | batch | measured | on | command |", "|---|---|---|---|---|"]
    last = ""
    for line in lines:
        command = line.record.command
        shown = "the same" if command == last else f"`{command}`"
        rendered.append(
            f"| {line.what} | {line.sizes} | {line.measured} | {line.record.gpu} | {shown} |"
        )
        last = command
    return "\n".join(rendered)


def with_figures(page: str, records: Sequence[Record]) -> str:
    """The page with new text between its markers. Exits if it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} needs the lines {BEGIN} and {END}, between which the figures go")
    picture = f"\n![Iteration time by batch]({Path(PLOT).name})\n" if plotted(records) else ""
    return f"{before}{BEGIN}\n\n{table(records)}\n{picture}\n{END}{after}"


def main(argv: Sequence[str] | None = None, *, root: Path = ROOT) -> None:
    """Write the page and the plot of the records under `root`, or check them."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 where something is stale"
    )
    args = parser.parse_args(argv)
    records = load_records(root / "benchmarks" / "results")
    page = root / PAGE
    plot = root / PLOT
    old = page.read_text()
    rows = plotted(records)
    new = with_figures(old, records)
    if args.check:
        stale = [PAGE] if new != old else []
        if rows and not (plot.exists() and digest(rows) in plot.read_text()):
            stale.append(PLOT)
        if stale:
            sys.exit(
                f"{' and '.join(stale)}: not what benchmarks/results gives; run python -m "
                "benchmarks.report"
            )
        return
    page.write_text(new)
    if rows:
        draw(rows, plot)


if __name__ == "__main__":
    main()
