"""Owns the report of an acceptance benchmark: its tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specguide.bench.settings import PLAIN, UNGUIDED
from specguide.bench.tables import markdown_table

Record = Mapping[str, Any]

_WHERE = ("data set", "backend", "at once")
_HOW = ("drafter", "drafts", "K", "F")
_AXES = (
    "set_name",
    "backend",
    "concurrency",
    "drafter",
    "guided_drafts",
    "num_draft_tokens",
    "num_forced",
)
_UNFORCED, _UNGUIDED = {"num_forced": 0}, {"num_forced": 0, "guided_drafts": False}
_PLAIN = {"drafter": PLAIN, "num_draft_tokens": 0, "num_forced": 0, "guided_drafts": True}
_MOST_PLACES = 8

GAIN = """\
*Acceptance*: tokens an iteration, golden token included; ÷ that of the same drafter without \
forced drafts (F = 0) and \
with drafts among all tokens (unguided). *Forced*: share of the output tokens that were forced \
drafts. *Iteration*: \
median of those that decode, of the whole batch. *Net gain*: acceptance × iteration rate ÷ plain \
decoding's. \
*Tokens/s*: of the whole run, prompts included. *Differ*: outputs that are not plain decoding's. \
Each backend's lines are of the tasks that it took."""
PLACES = """\
*Accepts more than d*: share of all iterations, for d = 0, 1, …; *where d were accepted* of those \
that got so far."""
LOAD = """\
A request's times count from when it had a slot; *of a user*: tokens/s after the first token, in \
the median. A \
callback serves the whole batch."""
GRAMMAR = """\
*Grammar alone*: to take a token and fill the row of what may follow, one thread, one request, \
for each token of plain \
decoding's outputs. *Errors* are counted, and the others go on; *whole*: ended by the grammar, \
and *invalid* by \
`jsonschema`; *cut*: by max_tokens."""


def markdown(records: Sequence[Record]) -> str:
    """Four tables: the gain, where drafts are lost, the time of a request, and the effect of the
    grammar."""
    parts = (
        ("Gain", GAIN, _gain_table(records)),
        ("Acceptance by place", PLACES, _place_table(records)),
        ("Under load", LOAD, _load_table(records)),
        ("Grammar backends", GRAMMAR, _grammar_table(records)),
    )
    return "\n\n".join(f"## {title}\n\n{words}\n\n{table}" for title, words, table in parts)


def net_gain(record: Record, plain: Record | None) -> float | None:
    """Acceptance × iteration rate, relative to plain decoding; None if either was not measured."""
    if plain is None or not (
        record["iteration_ms"] and plain["iteration_ms"] and plain["acceptance_length"]
    ):
        return None
    return (
        record["acceptance_length"]
        / plain["acceptance_length"]
        * plain["iteration_ms"]["p50"]
        / record["iteration_ms"]["p50"]
    )


def other(records: Sequence[Record], one: Record, changed: Mapping[str, Any]) -> Record | None:
    """The record of another setting, which is the same except for `changed`; None if it was not
    measured."""
    wanted = {name: one[name] for name in _AXES} | dict(changed)
    return next(
        (
            record
            for record in records
            if all(record[name] == value for name, value in wanted.items())
        ),
        None,
    )


def has_drafts(record: Record) -> bool:
    """Whether any drafts were asked for."""
    return record["drafter"] not in (PLAIN, UNGUIDED)


def plain_of(records: Sequence[Record], one: Record) -> Record | None:
    """The record of plain decoding for the same requests."""
    return other(records, one, _PLAIN)


def _gain_table(records: Sequence[Record]) -> str:
    def row(record: Record) -> Iterator[str]:
        plain = plain_of(records, record)
        yield f"{record['acceptance_length']:.2f}"
        for changed in (_UNFORCED, _UNGUIDED):
            yield _ratio(record, other(records, record, changed), "acceptance_length")
        yield f"{100 * record['forced_share']:.0f} %"
        yield _numbers({"p50": record["iteration_ms"].get("p50")}, 2)
        gain = net_gain(record, plain)
        yield "–" if gain is None else f"{gain:.2f}"
        yield f"{record['tokens_per_s']:,.0f}"
        yield _ratio(record, plain, "tokens_per_s")
        yield "–" if record["drafter"] == UNGUIDED else str(record["differ_from_plain"])

    header = (
        *_WHERE,
        *_HOW,
        "acceptance",
        "÷ F = 0",
        "÷ unguided",
        "forced",
        "iteration ms",
        "net gain",
        "tokens/s",
        "÷ plain",
        "differ",
    )
    return markdown_table(
        header, ((*_where(record), *_how(record), *row(record)) for record in records)
    )


def _place_table(records: Sequence[Record]) -> str:
    def row(record: Record) -> Iterator[str]:
        yield " / ".join(map(str, record["histogram"]))
        for name in ("accepted_to_depth", "accepted_if_reached"):
            shown = [f"{100 * share:.0f}" for share in record[name]]
            shown = shown[:_MOST_PLACES] + ["…"] * (len(shown) > _MOST_PLACES)
            yield f"{' / '.join(shown)} %" if shown else "–"

    header = (
        *_WHERE,
        *_HOW,
        "iterations that accepted 0 / 1 / …",
        "accepts more than d",
        "where d were accepted",
    )
    return markdown_table(
        header,
        (
            (*_where(record), *_how(record), *row(record))
            for record in records
            if has_drafts(record)
        ),
    )


def _load_table(records: Sequence[Record]) -> str:
    header = (
        *_WHERE,
        *_HOW,
        "tokens/s",
        "of a user",
        "first token, ms: p50 / p99",
        "whole answer, ms: p50 / p99",
        "iteration, ms: p50 / p99",
        "callback, µs: p50 / p99 / p99.9",
    )
    return markdown_table(
        header,
        (
            (
                *_where(record),
                *_how(record),
                f"{record['tokens_per_s']:,.0f}",
                _numbers({"p50": record["tokens_per_s_per_user"]}, 1),
                _numbers(record["ttft_ms"], 0),
                _numbers(record["latency_ms"], 0),
                _numbers(record["iteration_ms"], 2),
                _numbers(record["callback_us"], 0),
            )
            for record in records
        ),
    )


def _grammar_table(records: Sequence[Record]) -> str:
    def row(record: Record) -> Iterator[str]:
        yield from map(str, (record["requests"], record["guided"]))
        yield ", ".join(f"{count} {name}" for name, count in record["errors"].items()) or "0"
        unjudged = len(record.get("unjudged", ()))
        yield str(record["whole"])
        yield f"{len(record['invalid'])}" + (f", {unjudged} unjudged" if unjudged else "")
        yield str(record["cut"])
        yield _numbers(record["compile_ms"], 1)
        yield _numbers(record["grammar_us"], 1)

    plain = dict[tuple[str, str], Record]()  # one for each, with the lowest concurrency
    for record in records:
        if record["drafter"] == PLAIN:
            plain.setdefault((record["set_name"], record["backend"]), record)
    header = (
        "data set",
        "backend",
        "tasks",
        "guided",
        "errors",
        "whole",
        "invalid",
        "cut",
        "compile, ms: p50 / p99",
        "grammar alone, µs a token: p50 / p99 / p99.9",
    )
    return markdown_table(
        header, ((*_where(record)[:2], *row(record)) for record in plain.values())
    )


def _where(record: Record) -> tuple[str, ...]:
    return record["set_name"], record["backend"], str(record["concurrency"])


def _how(record: Record) -> tuple[str, ...]:
    drafts = "guided" if record["guided_drafts"] else "unguided"
    return (
        record["drafter"],
        drafts if has_drafts(record) else "–",
        str(record["num_draft_tokens"]),
        str(record["num_forced"]),
    )


def _numbers(values: Mapping[str, float | None], num_digits: int) -> str:
    return (
        " / ".join(f"{value:,.{num_digits}f}" for value in values.values() if value is not None)
        or "–"
    )


def _ratio(one: Record, base: Record | None, name: str) -> str:
    return "–" if base is None or not base[name] else f"{one[name] / base[name]:.2f}"
