"""Makes the README's GPU figures and their plot from the records under benchmarks/results/.

    python -m benchmarks.report [--check]

Only records made on a GPU count. With --check nothing is written: it exits with 1 where the README or the plot is not
what the records give. Drawing needs matplotlib, the extra "plot".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS_DIR

ROOT = RESULTS_DIR.parent.parent
BEGIN, END = "<!-- gpu figures, by python -m benchmarks.report -->", "<!-- end of gpu figures -->"
PLOT = "docs/iteration.svg"
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
        named = [{"name": name, **row} for name, row in result.items() if isinstance(row, dict)] if isinstance(
            result, dict) else []
        return named or (result if isinstance(result, list) else [result])

    @property
    def gpu(self) -> str:
        return str(self.content["hardware"]["gpu"]).removeprefix("NVIDIA ")

    @property
    def command(self) -> str:
        """What was called; of an older record, what would give such rows."""
        if "command" in self.content:
            return str(self.content["command"])
        words = ["python", "-m", f"benchmarks.{self.kind}"]
        if self.kind == "iteration":
            words += ["--batches", ",".join(map(str, batches(self.rows))), "--modes", ",".join(modes(self.rows)),
                      "--iterations", str(self.content["config"]["iterations"])]
        return shlex.join(words)


@dataclass(frozen=True)
class Line:
    """One line of the table; `measured` has one value for each of `sizes` where there are several."""

    what: str
    sizes: str
    measured: str
    record: Record


def load_records(folder: Path) -> list[Record]:
    """Those made on a GPU, by name."""
    contents = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return [Record(name.split("_")[0], content) for name, content in contents.items() if "gpu" in content["hardware"]]


def modes(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["mode"] for row in rows))


def batches(rows: Iterable[Row]) -> list[int]:
    return sorted({row["batch_size"] for row in rows})


def number(value: float) -> str:
    """Three digits or more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def over(values: Iterable[Any]) -> str:
    return " / ".join(str(value) for value in values)


def ratio_line(record: Record, what: str, one: str, other: str, of: Callable[[Row], float]) -> Iterator[Line]:
    """One mode against another at the batches that have both."""
    found = {(row["mode"], row["batch_size"]): row for row in record.rows}
    sizes = [size for size in batches(record.rows) if (one, size) in found and (other, size) in found]
    if sizes:
        ratios = [of(found[one, size]) / of(found[other, size]) for size in sizes]
        yield Line(what, over(sizes), over(f"{ratio:.2f}" for ratio in ratios), record)


def median_ms(row: Row) -> float:
    return float(row["median_ms"])


def tokens_per_s(row: Row) -> float:
    return float(row["tokens_per_s"])


def iteration_lines(record: Record) -> Iterator[Line]:
    """Times where the record has something to hold them against, then each pair of modes that it has."""
    rows = record.rows
    by_mode = {mode: [row for row in rows if row["mode"] == mode] for mode in modes(rows)}
    if "unguided" in by_mode:
        for mode in (mode for mode in PLOTTED if mode in by_mode):
            yield Line(f"iteration {mode}, ms: median (p99)", over(row["batch_size"] for row in by_mode[mode]),
                       over(f"{number(row['median_ms'])} ({number(row['p99_ms'])})" for row in by_mode[mode]), record)
    yield from ratio_line(record, "guided ÷ unguided", "guided", "unguided", median_ms)
    yield from ratio_line(record, "20 % guided ÷ unguided", "20 % guided", "unguided", median_ms)
    if "unguided" in by_mode:
        with_floor = [row for row in by_mode["unguided"] if "floor_ms" in row]
        if with_floor:
            yield Line("floor, ms: weights, keys and values read once (unguided ÷ floor)",
                       over(row["batch_size"] for row in with_floor),
                       over(f"{number(row['floor_ms'])} ({row['median_ms'] / row['floor_ms']:.2f})"
                            for row in with_floor), record)
        if guided := by_mode.get("guided"):
            yield Line(f"guided: held slots; late draft rows, in {record.content['config']['iterations']} iterations",
                       over(row["batch_size"] for row in guided),
                       f"{over(row['held'] for row in guided)}; {over(row['late_draft_rows'] for row in guided)}",
                       record)
    yield from ratio_line(record, "tokens/s, one model ÷ two models", "guided", "two models", tokens_per_s)
    yield from ratio_line(record, "tokens/s, one model ÷ two models, unguided", "unguided", "two models unguided",
                          tokens_per_s)
    yield from ratio_line(record, "tokens/s, speculative ÷ plain, guided", "guided", "plain guided", tokens_per_s)
    yield from ratio_line(record, "tokens/s, speculative ÷ plain, unguided", "unguided", "plain unguided", tokens_per_s)
    yield from ratio_line(record, "iteration, Python ÷ native callbacks", "Python callbacks", "guided", median_ms)


def kernel_lines(record: Record) -> Iterator[Line]:
    """One line for each kernel, rival, width and dtype; numbers of rows within it, by the share of allowed tokens."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in record.rows:
        num_rows, _, shape = row["shape"].partition(" × ")
        shape, _, share = shape.rpartition(", ")
        for rival, against in row.get("against", {}).items():
            by_share = found.setdefault((f"time of {row['kernel']} ÷ {rival}, {shape}", rival), {})
            by_share.setdefault(share, {})[num_rows] = against["ratio"]
    for (what, _), by_share in found.items():
        sizes = list(dict.fromkeys(size for ratios in by_share.values() for size in ratios))
        values = (f"{share.replace('.0%', '%')}: {over(f'{ratios[size]:.2f}' for size in sizes if size in ratios)}"
                  for share, ratios in by_share.items())
        yield Line(what, f"{over(sizes)} rows", "; ".join(values), record)


def callback_lines(record: Record) -> Iterator[Line]:
    """Whatever times in microseconds a row has, by the words in it."""
    for row in record.rows:
        words = ", ".join(str(value) for value in row.values() if isinstance(value, str))
        times = {name.removesuffix("_us").replace("_", " "): value for name, value in row.items()
                 if re.search(r"(^|_)us$", name) and isinstance(value, int | float)}
        if times:
            measured = ", ".join(f"{name} {number(value)} µs" if name != "us" else f"{number(value)} µs"
                                 for name, value in times.items())
            yield Line(f"callback: {words}" if words else "callback", str(row.get("batch_size", "")), measured, record)


def soak_lines(record: Record) -> Iterator[Line]:
    """One for each phase."""
    for row in record.rows:
        ms = row.get("ms_without_prefill", {})
        times = f"; {number(ms['median'])} ({number(ms['p99'])}) ms" if {"median", "p99"} <= ms.keys() else ""
        yield Line(f"soak, {row['phase']}: iterations, requests, faults; median (p99) of decode iterations",
                   str(record.content["config"].get("batch", "")),
                   f"{row['decode_iterations']:,}, {row['requests']:,}, {len(row['faults'])}{times}", record)


def equality_lines(record: Record) -> Iterator[Line]:
    """One for each pair of runs."""
    for row in record.rows:
        yield Line(f"greedy outputs that differ: {row['name']}", str(record.content["config"].get("batch", "")),
                   f"{row['differ']} of {row['requests']}; {row['share_before_difference']:.1%} of tokens before",
                   record)


LINES: dict[str, Callable[[Record], Iterator[Line]]] = {
    "iteration": iteration_lines, "kernels": kernel_lines, "callbacks": callback_lines, "soak": soak_lines,
    "equality": equality_lines}


def table(records: Sequence[Record]) -> str:
    """Markdown; a command is spelled out where it is not that of the line before."""
    lines = [line for kind, of in LINES.items() for record in records if record.kind == kind for line in of(record)]
    rendered, last = ["| what | batch | measured | on | command |", "|---|---|---|---|---|"], ""
    for line in lines:
        command = line.record.command
        shown = "the same" if command == last else f"`{command}`"
        rendered.append(f"| {line.what} | {line.sizes} | {line.measured} | {line.record.gpu} | {shown} |")
        last = command
    return "\n".join(rendered)


def plotted(records: Sequence[Record]) -> list[Row]:
    """Rows of the plot: those of the first record that has an unguided mode."""
    rows = next((record.rows for record in records if record.kind == "iteration" and "unguided" in modes(record.rows)),
                [])
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
    matplotlib.rcParams.update({"svg.hashsalt": "specguide", "svg.fonttype": "none", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(6, 3.2))
    sizes = batches(rows)
    for offset, (mode, color) in zip((-0.06, 0, 0.06), PLOTTED.items(), strict=True):
        points = {row["batch_size"]: row for row in rows if row["mode"] == mode}
        if points:
            medians = [row["median_ms"] for row in points.values()]
            above = [max(row["p99_ms"] - row["median_ms"], 0) for row in points.values()]
            axes.errorbar([sizes.index(size) + offset for size in points], medians, [[0] * len(above), above],
                          marker="o", markersize=4, capsize=3, color=color, label=mode)
    floors = {row["batch_size"]: row["floor_ms"] for row in rows if "floor_ms" in row}
    axes.plot([sizes.index(size) for size in sorted(floors)], [floors[size] for size in sorted(floors)], "--",
              color="#777777", label="floor")
    axes.set(xticks=range(len(sizes)), xticklabels=map(str, sizes), xlabel="batch", ylim=(0, None),
             ylabel="iteration, ms: median, whisker to p99")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Description": digest(rows)})


def with_figures(readme: str, records: Sequence[Record]) -> str:
    """The README with what lies between its markers made anew. Exits where it lacks them."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"README.md needs the lines {BEGIN} and {END}, between which the figures go")
    picture = f"\n![Iteration time by batch]({PLOT})\n" if plotted(records) else ""
    return f"{before}{BEGIN}\n\n{table(records)}\n{picture}\n{END}{after}"


def main(argv: Sequence[str] | None = None, *, root: Path = ROOT) -> None:
    """Write, or check, what the records under `root` give."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where something is stale")
    args = parser.parse_args(argv)
    records, readme, plot = load_records(root / "benchmarks" / "results"), root / "README.md", root / PLOT
    old, rows = readme.read_text(), plotted(records)
    new = with_figures(old, records)
    if args.check:
        stale = ["README.md"] if new != old else []
        if rows and not (plot.exists() and digest(rows) in plot.read_text()):
            stale.append(PLOT)
        if stale:
            sys.exit(f"{' and '.join(stale)}: not what benchmarks/results gives; run python -m benchmarks.report")
        return
    readme.write_text(new)
    if rows:
        draw(rows, plot)


if __name__ == "__main__":
    main()
