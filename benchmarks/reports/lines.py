"""Lines of benchmarks.report for each kind of record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchmarks.reports.iterations import iteration_lines, window_lines
from benchmarks.reports.records import Line, Record, Row, number, over


def adaptive_lines(record: Record) -> Iterator[Line]:
    """One line for each text."""
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
    """One line for each way in each place."""
    for row in record.rows:
        yield Line(
            f"callback: {row['callback']}, {row['place']}", "", f"{number(row['us'])} µs", record
        )


def soak_lines(record: Record) -> Iterator[Line]:
    """One line for each phase."""
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
    """Lines of both sides of an iteration, by batch."""
    yield Line(
        "guided iteration of the shipped model, µs: device (host, beside it)",
        over(row["batch_size"] for row in record.rows),
        over(f"{number(row['device_us'])} ({number(row['host_us'])})" for row in record.rows),
        record,
    )


def equality_lines(record: Record) -> Iterator[Line]:
    """One line for each pair of runs."""
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
