"""Lines of benchmarks.report that tell of iterations: times, ratios of modes, windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.reports.plot import PLOTTED
from benchmarks.reports.records import Line, Record, Row, modes, number, over, times


def time_lines(record: Record, by_mode: Mapping[str, Sequence[Row]]) -> Iterator[Line]:
    """Lines of a record that has unguided rows: times of what is plotted, the floor, and what
    guidance does to the tail."""

    def line(what: str, rows: Sequence[Row], shown: Callable[[Row], Any]) -> Line:
        return Line(what, over(row["batch_size"] for row in rows), over(map(shown, rows)), record)

    unguided = by_mode["unguided"]
    guided = by_mode.get("guided", [])
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
    yield from round_lines(record)


def round_lines(record: Record) -> Iterator[Line]:
    """Guided requests whose grammars are new beside later ones: the last round of requests, and in
    brackets the first."""
    rows = [row for row in record.rows if row["mode"] == "guided" and "rounds" in row]
    if not rows:
        return
    shown: dict[str, Callable[[Row], str]] = {
        "guided ÷ an engine without guides, to three places": lambda row: (
            f"{row['of_grammarless']:.3f} ({row['first_of_grammarless']:.3f})"
        ),
        "late rows for drafts": lambda row: (
            f"{row['late_share']:.1%} ({row['rounds'][0]['late_share']:.1%})"
        ),
        "workers' time an iteration, ms": lambda row: (
            f"{row['workers_us'] / 1e3:.1f} ({row['rounds'][0]['workers_us'] / 1e3:.1f})"
        ),
    }
    sizes = over(row["batch_size"] for row in rows)
    for what, of_row in shown.items():
        yield Line(f"{what}: last round (first)", sizes, over(map(of_row, rows)), record)


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
