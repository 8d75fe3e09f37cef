"""Makes the GPU figures of docs/results.md and their plot from the records under
benchmarks/results/.

    python -m benchmarks.report [--check]

Only records made on a GPU count. With --check nothing is written: it exits with 1 where the page
or the plot is not what the records give. Drawing needs matplotlib, the extra "plot".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import RESULTS_DIR

ROOT = RESULTS_DIR.parent.parent
BEGIN, END = "<!-- gpu figures, by python -m benchmarks.report -->", "<!-- end of gpu figures -->"
PAGE, PLOT = "docs/results.md", "docs/iteration.svg"
PLOTTED = {"unguided": "#4e79a7", "20 % guided": "#59a14f", "guided": "#e6842a"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """One file of results, as common.emit wrote it. kind: its name up to the first underscore"""

    kind: str
    content: dict[str, Any]

    @property
    def rows(self) -> list[Row]:
        """Its results; where they are named, the name is their "name"."""
        result = self.content["result"]
        named = (
            [{"name": name, **row} for name, row in result.items() if isinstance(row, dict)]
            if isinstance(result, dict)
            else []
        )
        return named or (result if isinstance(result, list) else [result])

    @property
    def gpu(self) -> str:
        return str(self.content["hardware"]["gpu"]).removeprefix("NVIDIA ")

    @property
    def command(self) -> str:
        """What was called."""
        return str(self.content["command"])


@dataclass(frozen=True)
class Line:
    """One line of the table; `measured` has one value for each of `sizes` where there are
    several."""

    what: str
    sizes: str
    measured: str
    record: Record


def load_records(folder: Path) -> list[Record]:
    """Those made on a GPU, by name."""
    contents = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return [
        Record(name.split("_")[0], content)
        for name, content in contents.items()
        if "gpu" in content["hardware"]
    ]


def modes(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["mode"] for row in rows))


def batches(rows: Iterable[Row]) -> list[int]:
    return sorted({row["batch_size"] for row in rows})


def number(value: float) -> str:
    """Three digits or more."""
    return (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.3g}"
        if abs(value) < 1
        else f"{value:.2f}"
    )


def over(values: Iterable[Any]) -> str:
    return " / ".join(str(value) for value in values)


def times(row: Row) -> str:
    """Median (p99)."""
    return f"{number(row['median_ms'])} ({number(row['p99_ms'])})"


def time_lines(record: Record, by_mode: Mapping[str, Sequence[Row]]) -> Iterator[Line]:
    """Of a record that has unguided rows: times of what is plotted, the floor, and what guidance
    does to the tail."""

    def line(what: str, rows: Sequence[Row], shown: Callable[[Row], Any]) -> Line:
        return Line(what, over(row["batch_size"] for row in rows), over(map(shown, rows)), record)

    unguided, guided = by_mode["unguided"], by_mode.get("guided", [])
    for mode in (mode for mode in PLOTTED if mode in by_mode):
        yield line(f"iteration {mode}, ms: median (p99)", by_mode[mode], times)
    yield line(
        "floor, ms: weights, keys and values read once (unguided ÷ floor)",
        unguided,
        lambda row: f"{number(row['floor_ms'])} ({row['median_ms'] / row['floor_ms']:.2f})",
    )
    if guided:
        yield line(
            "guided: p99 of each time over the median of the 20 around it",
            guided,
            lambda row: f"{row['p99_of_near']:.2f}",
        )
        yield line(
            f"guided: held slots (late draft rows) in {record.content['config']['iterations']} "
            "iterations",
            guided,
            lambda row: f"{row['held']} ({row['late_draft_rows']})",
        )
    if with_clock := [row for row in guided if "sm_mhz" in row]:
        yield line("guided: clock of the GPU, MHz", with_clock, lambda row: f"{row['sm_mhz']:.0f}")


RATIOS = (
    ("guided ÷ unguided", "guided", "unguided", "median_ms"),
    ("guided ÷ an engine without guides", "guided", "grammarless", "median_ms"),
    ("20 % guided ÷ unguided", "20 % guided", "unguided", "median_ms"),
    ("tokens/s, one model ÷ two models", "guided", "two models", "tokens_per_s"),
    (
        "tokens/s, one model ÷ two models, unguided",
        "unguided",
        "two models unguided",
        "tokens_per_s",
    ),
    ("tokens/s, speculative ÷ plain, guided", "guided", "plain guided", "tokens_per_s"),
    ("tokens/s, speculative ÷ plain, unguided", "unguided", "plain unguided", "tokens_per_s"),
    ("iteration, Python ÷ native callbacks", "Python callbacks", "guided", "median_ms"),
    (
        "iteration, native callbacks as host functions ÷ polling",
        "host functions",
        "guided",
        "median_ms",
    ),
    (
        "p99 of iterations, native callbacks as host functions ÷ polling",
        "host functions",
        "guided",
        "p99_ms",
    ),
)
"""What it says, of which mode, to which other, of what; a record has a line where it has batches of
both."""


def iteration_lines(record: Record) -> Iterator[Line]:
    """Times where the record has something to hold them against, then each pair of modes that it
    has."""
    by_mode = {
        mode: [row for row in record.rows if row["mode"] == mode] for mode in modes(record.rows)
    }
    if "unguided" in by_mode:
        yield from time_lines(record, by_mode)
    for what, one, other, name in RATIOS:
        others = {row["batch_size"]: row for row in by_mode.get(other, [])}
        ratios = {
            row["batch_size"]: row[name] / others[row["batch_size"]][name]
            for row in by_mode.get(one, [])
            if row["batch_size"] in others
        }
        if ratios:
            yield Line(
                what, over(ratios), over(f"{ratio:.2f}" for ratio in ratios.values()), record
            )


def window_lines(record: Record) -> Iterator[Line]:
    """Median times of each drafter's windows: modes of one name and several sizes."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in record.rows:
        drafter, _, window = row["mode"].rpartition(" ")
        if window.isdecimal():
            found.setdefault((drafter, row["batch_size"]), {})[window] = row["median_ms"]
    for (drafter, batch_size), times_ms in found.items():
        yield Line(
            f"iteration, {drafter} {over(times_ms)}, ms",
            str(batch_size),
            over(map(number, times_ms.values())),
            record,
        )


def adaptive_lines(record: Record) -> Iterator[Line]:
    """One for each text."""
    for text in dict.fromkeys(row["text"] for row in record.rows):
        rows = [row for row in record.rows if row["text"] == text]
        yield Line(
            f"tokens/s, adaptive {rows[0]['drafts']} ÷ plain (÷ all drafts always), {text} text",
            over(row["batch_size"] for row in rows),
            over(f"{row['of_plain']:.2f} ({row['of_fixed']:.2f})" for row in rows),
            record,
        )


def kernel_lines(record: Record) -> Iterator[Line]:
    """One line for each kernel, rival, width and dtype; numbers of rows within it, by the share of
    allowed tokens."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in record.rows:
        num_rows, _, shape = row["shape"].partition(" × ")
        shape, _, share = shape.rpartition(", ")
        for rival, against in row["against"].items():
            by_share = found.setdefault((f"time of {row['kernel']} ÷ {rival}, {shape}", rival), {})
            by_share.setdefault(share, {})[num_rows] = against["ratio"]
    for (what, _), by_share in found.items():
        sizes = list(dict.fromkeys(size for ratios in by_share.values() for size in ratios))
        values = (
            f"{share.replace('.0%', '%')}: "
            f"{over(f'{ratios[size]:.2f}' for size in sizes if size in ratios)}"
            for share, ratios in by_share.items()
        )
        yield Line(what, f"{over(sizes)} rows", "; ".join(values), record)


def callback_lines(record: Record) -> Iterator[Line]:
    """One for each way in each place."""
    for row in record.rows:
        yield Line(
            f"callback: {row['callback']}, {row['place']}", "", f"{number(row['us'])} µs", record
        )


def soak_lines(record: Record) -> Iterator[Line]:
    """One for each phase."""
    for row in record.rows:
        ms = row["ms_without_prefill"]
        shown = f"; {number(ms['median'])} ({number(ms['p99'])}) ms" if ms["num"] else ""
        yield Line(
            f"soak, {row['phase']}: iterations, requests, faults; median (p99) of decode "
            "iterations",
            str(record.content["config"]["batch"]),
            f"{row['decode_iterations']:,}, {row['of_requests']['requests']:,}, "
            f"{len(row['faults'])}{shown}",
            record,
        )


def serving_lines(record: Record) -> Iterator[Line]:
    """Shares of guided requests side by side."""

    def line(what: str, rows: Sequence[Row], shown: Callable[[Row], str]) -> Line:
        shares = over(f"{100 * row['guided_share']:g}" for row in rows)
        return Line(
            f"{what}; {shares} % of the requests guided",
            str(record.content["config"]["concurrency"]),
            over(map(shown, rows)),
            record,
        )

    yield line("tokens/s", record.rows, lambda row: f"{row['tokens_per_s']:,}")
    yield line(
        "iterations that only decode, ms (÷ the first, of the same round)",
        record.rows,
        lambda row: f"{number(median(row['decode_ms']))} ({row['decode_ratio']:.2f})",
    )
    yield line(
        "free requests, ms a token",
        [row for row in record.rows if row["free_tpot_ms"]],
        lambda row: number(median(row["free_tpot_ms"])),
    )


def host_lines(record: Record) -> Iterator[Line]:
    """Both sides of an iteration, by batch."""
    yield Line(
        "guided iteration of the shipped model, µs: device (host, beside it)",
        over(row["batch_size"] for row in record.rows),
        over(f"{number(row['device_us'])} ({number(row['host_us'])})" for row in record.rows),
        record,
    )


def equality_lines(record: Record) -> Iterator[Line]:
    """One for each pair of runs."""
    for row in record.rows:
        yield Line(
            f"greedy outputs that differ: {row['name']}",
            str(record.content["config"]["batch"]),
            f"{row['differ']} of {row['requests']}; {row['share_before_difference']:.1%} of tokens "
            "before",
            record,
        )


LINES: dict[str, Callable[[Record], Iterator[Line]]] = {
    "iteration": iteration_lines,
    "windows": window_lines,
    "adaptive": adaptive_lines,
    "kernels": kernel_lines,
    "callbacks": callback_lines,
    "serving": serving_lines,
    "host": host_lines,
    "soak": soak_lines,
    "equality": equality_lines,
}


def table(records: Sequence[Record]) -> str:
    """Markdown; a command is spelled out where it is not that of the line before."""
    lines = [
        line
        for kind, of in LINES.items()
        for record in records
        if record.kind == kind
        for line in of(record)
    ]
    rendered, last = ["| what | batch | measured | on | command |", "|---|---|---|---|---|"], ""
    for line in lines:
        command = line.record.command
        shown = "the same" if command == last else f"`{command}`"
        rendered.append(
            f"| {line.what} | {line.sizes} | {line.measured} | {line.record.gpu} | {shown} |"
        )
        last = command
    return "\n".join(rendered)


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


def with_figures(page: str, records: Sequence[Record]) -> str:
    """The page with what lies between its markers made anew. Exits where it lacks them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} needs the lines {BEGIN} and {END}, between which the figures go")
    picture = f"\n![Iteration time by batch]({Path(PLOT).name})\n" if plotted(records) else ""
    return f"{before}{BEGIN}\n\n{table(records)}\n{picture}\n{END}{after}"


def main(argv: Sequence[str] | None = None, *, root: Path = ROOT) -> None:
    """Write, or check, what the records under `root` give."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
