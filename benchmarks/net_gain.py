"""What each drafter and window gains on a GPU: acceptance length × iteration rate, against plain
decoding.

    python -m benchmarks.net_gain [--acceptance FILE …] [--iterations FILE] [--out FILE]

Joins what `specguide bench acceptance` found, tokens an iteration by drafter and window, with what
`python -m benchmarks.iteration` found, milliseconds an iteration by window and batch. The two may
be of different models: then it says what a model with those iteration times would gain if its
drafts were accepted as often. Times between two measured windows are interpolated and marked "~" (a
window of 0 is plain decoding, where there is no draft head); outside of them there are none. Writes
Markdown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS_DIR, argument_parser

PLAIN = "plain guided"
SERIES = {
    "eagle3": "window",
    "eagle3_tree": "tree",
    "eagle3_small_tree": "tree",
    "ngram": "ngram",
    "suffix": "suffix",
    "grammar": "grammar",
    "mtp": "mtp window",
}
"""Which modes of the iteration benchmark, as "window 8", have a drafter's iterations."""


@dataclass(frozen=True)
class IterationTimes:
    """Milliseconds of an iteration at one batch size.

    by_window: of each series, by window W, ascending
    plain_ms:  without drafts
    """

    by_window: Mapping[str, Mapping[int, float]]
    plain_ms: float

    def at(self, series: str, window: int) -> tuple[float, bool] | None:
        """The time, and whether it was measured; None outside of the measured windows."""
        known = self.by_window.get(series, {})
        if window in known:
            return known[window], True
        for low, high in pairwise(known):
            if low < window < high:
                return known[low] + (known[high] - known[low]) * (window - low) / (
                    high - low
                ), False
        return None


def iteration_times(record: Mapping[str, Any]) -> dict[int, IterationTimes]:
    """By batch size, of batches that have plain decoding; `guided` is the window of K. Raises
    SystemExit for none."""
    found = {}
    rows = record["result"]
    for batch in sorted({row["batch_size"] for row in rows}):
        ms = {row["mode"]: row["median_ms"] for row in rows if row["batch_size"] == batch}
        if PLAIN in ms:
            points = {"guided": f"window {record['config']['num_draft_tokens']}"}
            by_window = {name: {0: ms[PLAIN]} for name in ("ngram", "suffix", "grammar")}
            for mode in ms:
                series, _, window = points.get(mode, mode).rpartition(" ")
                if series in SERIES.values() and window.isdecimal():
                    num_golden = 1 if series.endswith("tree") else 0  # named by its nodes
                    by_window.setdefault(series, {})[int(window) - num_golden] = ms[mode]
            found[batch] = IterationTimes(
                {name: dict(sorted(some.items())) for name, some in by_window.items()}, ms[PLAIN]
            )
    if not found:
        sys.exit(
            f'the iteration times have no batch with the mode "{PLAIN}": run benchmarks.iteration '
            "with it"
        )
    return found


def rows(
    acceptance: Sequence[Mapping[str, Any]], times: Mapping[int, IterationTimes]
) -> Iterator[list[str]]:
    """Cells of each guided setting, at one concurrency and backend; acceptance does not depend on
    the first."""
    seen = set()
    for one in acceptance:
        key = tuple(
            one[name]
            for name in ("set_name", "backend", "drafter", "num_draft_tokens", "num_forced")
        )
        if one["drafter"] not in SERIES or not one["guided_drafts"] or key in seen:
            continue
        seen.add(key)
        size, length = one["window"], one["acceptance_length"]
        cells = [
            one["set_name"],
            one["drafter"],
            str(size),
            str(one["num_forced"]),
            f"{length:.2f}",
        ]
        for batch, of_batch in times.items():
            found = of_batch.at(SERIES[one["drafter"]], size)
            if found is None:
                cells += ["–"] * 3
                continue
            ms, is_measured = found
            cells += [
                f"{'' if is_measured else '~'}{ms:.2f}",
                f"{1e3 * batch * length / ms:,.0f}",
                f"{length * of_batch.plain_ms / ms:.2f}",
            ]
        yield cells


def markdown(acceptance: Sequence[Mapping[str, Any]], iteration: Mapping[str, Any]) -> str:
    """The page. acceptance: records of the acceptance benchmark"""
    times = iteration_times(iteration)
    settings = [setting for record in acceptance for setting in record["result"]]
    sets = list(dict.fromkeys(setting["set_name"] for setting in settings))
    settings.sort(key=lambda setting: sets.index(setting["set_name"]))
    header = ["data set", "drafter", "W", "of them F", "acceptance"]
    for batch in times:
        header += [f"batch {batch}: iteration, ms", "tokens/s", "÷ plain"]
    plain = ", ".join(f"{one.plain_ms:.2f} ms at batch {batch}" for batch, one in times.items())
    lines = [header, ["---"] * len(header), *rows(settings, times)]
    commands = " and ".join(f"`{record['command']}`" for record in acceptance)
    hardware = iteration["hardware"].get("gpu", iteration["hardware"]["cpu"])
    words = (
        f"Acceptance length by {commands}, iteration times by",
        f"`{iteration['command']}` on {hardware}, which may be of another model. Plain decoding "
        f"takes {plain}.",
        "÷ plain: acceptance × plain iteration ÷ iteration. W: drafts that are verified an "
        "iteration; F: those of them",
        "that are forced.",
        "~: interpolated between the measured windows next to it; –: outside of them.",
    )
    return (
        "\n".join(
            (
                "# Net gain by drafter and window",
                "",
                *words,
                "",
                *("| " + " | ".join(line) + " |" for line in lines),
            )
        )
        + "\n"
    )


def main() -> None:
    """Write the table."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--acceptance",
        type=Path,
        nargs="+",
        default=[RESULTS_DIR / "acceptance.json", RESULTS_DIR / "acceptance_small_trees.json"],
    )
    parser.add_argument("--iterations", type=Path, default=RESULTS_DIR / "windows.json")
    parser.add_argument("--out", type=Path, default=RESULTS_DIR / "net_gain.md")
    args = parser.parse_args()
    for path in (*args.acceptance, args.iterations):
        if not path.exists():
            sys.exit(
                f"there is no {path}: make it with specguide bench acceptance and python -m "
                "benchmarks.iteration"
            )
    page = markdown(
        [json.loads(path.read_text()) for path in args.acceptance],
        json.loads(args.iterations.read_text()),
    )
    args.out.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
