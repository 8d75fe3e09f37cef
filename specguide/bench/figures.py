"""Owns the figures of a run: counts, latencies and rates, as a record for JSON and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from specguide.bench.answer import Answer
from specguide.bench.busy import Window, busy_tokens_per_s
from specguide.bench.checks import FAULTS, Fault
from specguide.bench.samples import KINDS
from specguide.bench.tables import line

PERCENTILES = (50, 90, 99)
LATENCIES = {
    "ttft_ms": "first token",
    "tpot_ms": "per token",
    "itl_ms": "between chunks",
    "e2e_ms": "whole answer",
}


def summary(
    answers: Sequence[Answer],
    faults: Sequence[Sequence[Fault]],
    window: Window | None = None,
) -> dict[str, Any]:
    """Counts of answers by fault and cause, rates over the time from the first answer to the last,
    latencies by kind.

    Only answers that are neither refused nor lost count in latencies and rates. Latencies are in
    milliseconds:

    ttft: from when a request was due to its first chunk with content
    tpot: after that, the mean per token
    itl:  each gap between two chunks
    e2e:  from when it was due to the end of the stream

    window: the time in which all clients of a closed loop are busy; its rate is reported, too
    """
    whole = [
        answer
        for answer, found in zip(answers, faults, strict=True)
        if not any(fault.kind in ("refused", "lost") for fault in found)
    ]
    seconds = 0.0
    if answers:
        begin_s = min(answer.due_s for answer in answers)
        seconds = max(answer.end_s for answer in answers) - begin_s
    num_tokens = sum(answer.num_tokens for answer in whole)
    return {
        "requests": len(answers),
        "whole": len(whole),
        "cut": sum(one.finish_reason == "length" for one in whole),
        **_fault_counts(faults),
        "seconds": round(seconds, 2),
        "output_tokens": num_tokens,
        "tokens_per_s": _rate(num_tokens, seconds),
        "busy_tokens_per_s": busy_tokens_per_s(whole, window),
        "requests_per_s": _rate(len(whole), seconds),
        "prompt_tokens": sum((one.usage or {}).get("prompt_tokens") or 0 for one in whole),
        "tokens_per_chunk": _rate(num_tokens, sum(len(one.arrivals_s) for one in whole)),
        "latency": _latencies_by_kind(whole),
    }


def _fault_counts(faults: Sequence[Sequence[Fault]]) -> dict[str, Any]:
    """Number of answers with a fault of each kind, and of faults by cause."""
    kinds = {
        kind: sum(any(fault.kind == kind for fault in found) for found in faults) for kind in FAULTS
    }
    causes = Counter(f"{fault.kind}: {fault.cause}" for found in faults for fault in found)
    return {**kinds, "causes": dict(causes)}


def _latencies_by_kind(answers: Sequence[Answer]) -> dict[str, Any]:
    by_kind = {kind: [one for one in answers if one.request.kind == kind] for kind in KINDS}
    return {
        "all": latencies(answers),
        **{kind: latencies(some) for kind, some in by_kind.items() if some},
    }


def is_good(result: dict[str, Any]) -> bool:
    """Whether at least one request was answered, and nothing was lost, crossed or invalid."""
    return bool(result["whole"]) and not any(
        result[kind] for kind in ("lost", "crossed", "invalid")
    )


def latencies(answers: Sequence[Answer]) -> dict[str, Any]:
    """Percentiles of each of LATENCIES, and the number of answers."""
    started = [answer for answer in answers if answer.arrivals_s]
    values: dict[str, list[float]] = {
        "ttft_ms": [one.arrivals_s[0] - one.due_s for one in started],
        "tpot_ms": [
            (one.arrivals_s[-1] - one.arrivals_s[0]) / (one.num_tokens - 1)
            for one in started
            if one.num_tokens > 1
        ],
        "itl_ms": [gap for one in started for gap in np.diff(one.arrivals_s).tolist()],
        "e2e_ms": [one.end_s - one.due_s for one in answers],
    }
    return {"answers": len(answers), **{name: _percentiles(some) for name, some in values.items()}}


def _percentiles(values_s: Sequence[float]) -> dict[str, float] | None:
    if not values_s:
        return None
    return {
        f"p{percent}": round(1e3 * float(np.percentile(values_s, percent)), 2)
        for percent in PERCENTILES
    }


def _rate(number: float, seconds: float) -> float:
    return round(number / seconds, 2) if seconds > 0 else 0.0


def table(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines to print: for each load its rate, if possible while all clients were busy; latencies by
    kind of request, p50 and p99 in milliseconds; and what was wrong.

    results: summaries, with `concurrency`
    """
    heads = [f"{words} p50 / p99" for words in LATENCIES.values()]
    yield line(["clients", "requests", "tokens/s", "a chunk", *heads])
    yield "|---" * (len(heads) + 4) + "|"
    for result in results:
        for kind, row in result["latency"].items():
            is_first = kind == "all"
            rate = result["busy_tokens_per_s"] or result["tokens_per_s"]
            cells = [
                str(result["concurrency"]) if is_first else "",
                f"{kind}, {row['answers']}",
                f"{rate:,.0f}" if is_first else "",
                f"{result['tokens_per_chunk']}" if is_first else "",
                *(_cell(row[name]) for name in LATENCIES),
            ]
            yield line(cells)
    for result in results:
        yield (
            f"{result['concurrency']} clients, {result['seconds']} s: {result['requests']} "
            f"requests of {_mean_prompt(result)} tokens, {result['whole']} answered, of which "
            f"{result['cut']} cut by max_tokens; "
            + ", ".join(f"{result[kind]} {kind}" for kind in FAULTS)
        )
        for cause, number in result["causes"].items():
            yield f"  {number} × {cause}"


def _cell(percentiles: dict[str, float] | None) -> str:
    return "-" if percentiles is None else f"{percentiles['p50']:.1f} / {percentiles['p99']:.1f}"


def _mean_prompt(result: dict[str, Any]) -> str:
    """Mean number of prompt tokens of answered requests."""
    return f"{result['prompt_tokens'] / max(1, result['whole']):.0f}"
