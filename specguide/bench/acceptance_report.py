"""Owns what is told of an acceptance benchmark: the table, and with matplotlib the plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]

HEADER = ("data set", "backend", "at once", "drafter", "drafts", "F", "acceptance", "÷ F = 0", "forced", "tokens/s",
          "÷ plain", "callback µs p50 / p99 / p99.9", "whole", "invalid", "differ")


def markdown(records: Sequence[Record]) -> str:
    """A table with a line for each setting."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for record in records:
        unforced = _other(records, record, num_forced=0)
        plain = _other(records, record, drafter="plain", num_forced=0, guided_drafts=True)
        times = record["callback_us"]
        cells = (record["set_name"], record["backend"], record["concurrency"], record["drafter"],
                 "guided" if record["guided_drafts"] else "unguided", record["num_forced"],
                 f"{record['acceptance_length']:.2f}", _ratio(record, unforced, "acceptance_length"),
                 f"{100 * record['forced_share']:.0f} %", f"{record['tokens_per_s']:,.0f}",
                 _ratio(record, plain, "tokens_per_s"), " / ".join(f"{us:,.0f}" for us in times.values()) or "–",
                 f"{record['whole']} of {record['requests']}", len(record["invalid"]), record["differ_from_plain"])
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Bars of acceptance for each data set, and, where there are several concurrencies, what a user gets against what
    all get. Returns the pictures. Raises ModuleNotFoundError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    made = []
    for name in dict.fromkeys(record["set_name"] for record in records):
        some = [record for record in records if record["set_name"] == name]
        made += [_bars(pyplot, name, some, folder), *_pareto(pyplot, name, some, folder)]
    return made


def _bars(pyplot: Any, name: str, records: Sequence[Record], folder: Path) -> Path:
    most = max(record["concurrency"] for record in records)
    shown = [record for record in records if record["concurrency"] == most and record["drafter"] != "plain"]
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.32 * len(shown)), layout="constrained")
    axes.barh([_label(record) for record in shown], [record["acceptance_length"] for record in shown], color="#4e79a7")
    axes.invert_yaxis()
    axes.set_xlabel(f"acceptance length, {name}")
    path = folder / f"acceptance_{name}.svg"
    figure.savefig(path)
    pyplot.close(figure)
    return path


def _pareto(pyplot: Any, name: str, records: Sequence[Record], folder: Path) -> list[Path]:
    if len({record["concurrency"] for record in records}) < 2:
        return []
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for label in dict.fromkeys(map(_label, records)):
        line = sorted((record for record in records if _label(record) == label), key=lambda r: r["concurrency"])
        axes.plot([record["tokens_per_s"] / record["concurrency"] for record in line],
                  [record["tokens_per_s"] for record in line], marker="o", label=label)
    axes.set(xlabel="tokens/s of a request", ylabel=f"tokens/s of all, {name}", xscale="log", yscale="log")
    axes.legend(fontsize="small")
    path = folder / f"pareto_{name}.svg"
    figure.savefig(path)
    pyplot.close(figure)
    return [path]


def _label(record: Record) -> str:
    words = [record["drafter"], *([] if record["guided_drafts"] else ["unguided"]),
             *([f"+ {record['num_forced']} forced"] if record["num_forced"] else []), f"({record['backend']})"]
    return " ".join(words)


def _other(records: Sequence[Record], one: Record, **changed: Any) -> Record | None:
    names = ("set_name", "drafter", "num_forced", "guided_drafts", "backend", "concurrency")
    wanted = {name: one[name] for name in names} | changed
    return next((record for record in records if all(record[name] == value for name, value in wanted.items())), None)


def _ratio(one: Record, other: Record | None, name: str) -> str:
    return "–" if other is None or not other[name] else f"{one[name] / other[name]:.2f}"
