"""Owns the pictures of an acceptance benchmark: bars with the ablation, and the rate that one user
gets against the rate of all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specguide.bench.acceptance_report import Record, has_drafts
from specguide.bench.settings import PLAIN

KINDS = (
    ("drafts unguided", "#b8c4d0"),
    ("drafts guided", "#4e79a7"),
    ("guided, and forced drafts", "#e6842a"),
)
_MARKERS = "o^sDvP*X"
_STYLES = (":", "-", "--")


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Bars of acceptance for each data set, and if there are several concurrencies a Pareto plot,
    as SVG and PNG.

    Returns the pictures. Raises ModuleNotFoundError without matplotlib.
    """
    from matplotlib.figure import Figure  # without pyplot, which would look for a window system

    made = []
    for name in dict.fromkeys(record["set_name"] for record in records):
        some = [record for record in records if record["set_name"] == name]
        drafted = [record for record in some if has_drafts(record)]
        for kind, shown, paint in (("acceptance", drafted, _bars), ("pareto", some, _pareto)):
            if not shown or (
                paint is _pareto and len({record["concurrency"] for record in shown}) < 2
            ):
                continue
            figure = Figure(layout="constrained")
            paint(figure, name, shown)
            for ending in ("svg", "png"):
                made.append(folder / f"{kind}_{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.{ending}")
                figure.savefig(made[-1], dpi=150)
    return made


def _bars(figure: Any, name: str, records: Sequence[Record]) -> None:
    """One group for each drafter and backend, at the highest concurrency; one bar for each kind of
    drafts and F."""
    most = max(record["concurrency"] for record in records)
    records = [record for record in records if record["concurrency"] == most]
    groups = {
        label: [record for record in records if _drafter(record, records) == label]
        for label in dict.fromkeys(_drafter(record, records) for record in records)
    }
    figure.set_size_inches(7.5, 1.2 + 0.3 * len(records) + 0.2 * len(groups))
    axes = figure.subplots()
    place = 0.0
    ticks = dict[str, float]()
    for label, some in groups.items():
        some = sorted(some, key=_kind)
        ticks[label] = place + (len(some) - 1) / 2
        for record in some:
            axes.barh(
                place, record["acceptance_length"], color=KINDS[_kind(record)[0]][1], height=0.9
            )
            forced = f"  F = {record['num_forced']}" if record["num_forced"] else ""
            axes.text(
                record["acceptance_length"],
                place,
                f" {record['acceptance_length']:.2f}{forced}",
                va="center",
                fontsize="small",
            )
            place += 1
        place += 0.7
    used = {_kind(record)[0] for record in records}
    for kind in sorted(used):
        axes.barh(0, 0, color=KINDS[kind][1], label=KINDS[kind][0])
    axes.set_yticks(list(ticks.values()), list(ticks))
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.set_xlabel("tokens an iteration, golden token included; plain decoding has 1")
    axes.axvline(1, color="#888888", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(name)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)


def _pareto(figure: Any, name: str, records: Sequence[Record]) -> None:
    """One line for each setting, over the concurrencies, which are written beside the points of the
    best line. Its colour shows the drafter, its style the kind of drafts, its marker the
    backend."""
    figure.set_size_inches(9, 5)
    axes = figure.subplots()
    for label in dict.fromkeys(_setting(record, records) for record in records):
        line = [
            record
            for record in records
            if _setting(record, records) == label and record["tokens_per_s_per_user"]
        ]
        if line:
            _draw_line(axes, label, line, records)
    _name_loads(axes, records)
    axes.set(
        xlabel="tokens/s of a user (median, after the first token)",
        ylabel="tokens/s of all",
        title=f"{name}; numbers are requests at once",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small", frameon=False)


def _draw_line(axes: Any, label: str, line: list[Record], records: Sequence[Record]) -> None:
    """The points of one setting among all records, by concurrency."""
    drafters = list(dict.fromkeys(map(_drafter_key, records)))
    backends = list(dict.fromkeys(record["backend"] for record in records))
    line = sorted(line, key=lambda record: record["concurrency"])
    first = line[0]
    is_plain = first["drafter"] == PLAIN
    axes.plot(
        [record["tokens_per_s_per_user"] for record in line],
        [record["tokens_per_s"] for record in line],
        _STYLES[_kind(first)[0]],
        marker=_MARKERS[backends.index(first["backend"])],
        color="#444444" if is_plain else f"C{drafters.index(_drafter_key(first)) % 10}",
        label=label,
        markersize=5,
    )


def _name_loads(axes: Any, records: Sequence[Record]) -> None:
    """Write each concurrency beside its best point."""
    for concurrency in sorted({record["concurrency"] for record in records}):
        some = [record for record in records if record["concurrency"] == concurrency]
        top = max(some, key=lambda record: record["tokens_per_s"])
        axes.annotate(
            str(concurrency),
            (top["tokens_per_s_per_user"] or 0, top["tokens_per_s"]),
            fontsize="small",
            xytext=(4, 4),
            textcoords="offset points",
        )


def _drafter_key(record: Record) -> tuple[str, int]:
    return record["drafter"], record["num_draft_tokens"]


def _kind(record: Record) -> tuple[int, int]:
    """The index in KINDS, and F."""
    return (2 if record["num_forced"] else 1 if record["guided_drafts"] else 0), record[
        "num_forced"
    ]


def _drafter(record: Record, records: Sequence[Record]) -> str:
    """The drafter's name, with K and the backend where these differ among the records."""
    num_drafts = {one["num_draft_tokens"] for one in records if one["num_draft_tokens"]}
    backends = {one["backend"] for one in records}
    return "".join(
        (
            record["drafter"],
            f", K = {record['num_draft_tokens']}"
            if len(num_drafts) > 1 and record["num_draft_tokens"]
            else "",
            f", {record['backend']}" if len(backends) > 1 else "",
        )
    )


def _setting(record: Record, records: Sequence[Record]) -> str:
    unguided = "" if record["guided_drafts"] else ", unguided"
    forced = f" + {record['num_forced']} forced" if record["num_forced"] else ""
    return f"{_drafter(record, records)}{unguided}{forced}"
