"""Owns the figures of the iteration benchmark, made of times and counters, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

OF_ROUNDS = (
    "median_ms",
    "p99_ms",
    "callbacks_us",
    "workers_us",
    "held",
    "late_draft_rows",
    "late_share",
    "guessed_share",
)
"""The figures that are kept of each round of requests."""


def times_of(times: np.ndarray) -> dict[str, float]:
    """Figures of the iterations' milliseconds."""
    return {
        "median_ms": round(float(np.median(times)), 3),
        "p99_ms": round(float(np.percentile(times, 99)), 3),
        "max_ms": round(float(times.max()), 3),
        "p99_of_near": round(float(np.percentile(times / running_median(times), 99)), 3),
    }


def grammar_work(before: Any, after: Any, num_timed: int, num_draft_rows: int) -> dict[str, Any]:
    """How much the executor's counters have grown: microseconds per iteration, and the shares of
    draft rows that were late or guessed.

    num_draft_rows: draft rows of a request in an iteration
    """
    late = after.late_draft_rows - before.late_draft_rows
    guessed = after.guessed_draft_rows - before.guessed_draft_rows
    num_rows = (after.iterations - before.iterations) * num_draft_rows
    return {
        "callbacks_us": round((after.callback_ns - before.callback_ns) / 1e3 / num_timed, 1),
        "fills": after.fills - before.fills,
        "workers_us": round((after.busy_ns - before.busy_ns) / 1e3 / num_timed, 1),
        "held": after.held - before.held,
        "late_draft_rows": late,
        "late_share": round(late / max(num_rows, 1), 4),
        "guessed_share": round(guessed / max(num_rows, 1), 4),
    }


def running_median(times: np.ndarray, reach: int = 10) -> np.ndarray:
    """The median of each time and up to `reach` on either side: contexts grow, and a GPU that gets
    hot lowers its clock."""
    return np.array(
        [np.median(times[max(0, i - reach) : i + reach + 1]) for i in range(len(times))]
    )


def print_row(row: dict[str, Any]) -> None:
    """Print a line of the table, and one for each earlier round."""
    print(
        f"{row['batch_size']:>5}  {row['mode']:<20} {row['median_ms']:>8.3f} {row['p99_ms']:>8.3f} "
        f"{row['p99_of_near']:>7.2f} {row['floor_ms']:>8.3f} {row['acceptance_length']:>7.2f} "
        f"{row['tokens_per_s']:>9} {_work(row)} {row.get('sm_mhz', 0):>5.0f} MHz",
        flush=True,
    )
    for number, one in enumerate(row.get("rounds", ())[:-1], start=1):
        of_round = f"in round {number}"
        print(
            f"       {of_round:<20} {one['median_ms']:>8.3f} {one['p99_ms']:>8.3f} {'':>34} "
            f"{_work(one)}"
        )


def _work(row: dict[str, Any]) -> str:
    return (
        f"{row['callbacks_us']:>7.0f} µs {row['workers_us']:>6.0f} µs {row['held']:>5} "
        f"{row['late_share']:>6.1%} {row['guessed_share']:>7.1%}"
    )


def add_ratios(rows: Sequence[dict[str, Any]]) -> None:
    """Add the ratio of iteration times, in the last round and in the first, to the modes of one
    batch size that draft like the engine without guides."""
    medians = {row["mode"]: row["median_ms"] for row in rows}
    for row, kind in product(rows, ("unguided", "20 % guided", "guided")):
        form, is_kind, _ = row["mode"].rpartition(kind)
        baseline = f"{form}grammarless"
        if is_kind and baseline in medians and row["mode"].endswith(kind):
            first = row.get("rounds", [row])[0]["median_ms"]
            row["of_grammarless"] = round(row["median_ms"] / medians[baseline], 4)
            row["first_of_grammarless"] = round(first / medians[baseline], 4)
            print(
                f"       {row['mode']} ÷ {baseline}: {row['of_grammarless']:.4f}, in round 1 "
                f"{row['first_of_grammarless']:.4f}",
                flush=True,
            )
