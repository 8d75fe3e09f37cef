"""Owns the figures, as JSON, that are computed from the outputs and the timeline of one setting of
the acceptance benchmark."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from specguide.bench.prompts import bare
from specguide.bench.rightness import is_right
from specguide.bench.tasks import Task
from specguide.bench.validation import violation
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guided.compile import GrammarCompiler
from specguide.request import RequestOutput
from specguide.tokenizer.vocabulary import Vocabulary
from specguide.trace.spans import CALLBACKS, FORWARD, Span

TAIL = (50, 99, 99.9)
MIDDLE = (50, 99)


def acceptance(outputs: Sequence[RequestOutput]) -> dict[str, Any]:
    """Tokens per iteration, golden token included, and where drafts were lost, over all requests
    that ended without an error.

    histogram:         entry a counts the iterations that gained a + 1 tokens: a accepted drafts and
                       the golden token, or a + 1 drafts of which the last one ended the output
    accepted_to_depth: entry d is the share of all iterations that accepted more than d drafts; the
                       entries add up to the acceptance length - 1
    accepted_if_reached: entry d is the share of the iterations with d or more accepted drafts that
                         accepted more than d
    proposed, accepted: drafts by who proposed them, as in RequestMetrics
    forced_share:      share of all output tokens that the grammar forced, and that therefore cost
                       no forward pass of a drafter
    """
    ended = [output for output in outputs if output.error is None]
    histogram, proposed, accepted = Counter[int](), Counter[str](), Counter[str]()
    for output in ended:
        histogram.update(dict(enumerate(output.metrics.accepted_histogram)))
        proposed.update(output.metrics.drafts_proposed)
        accepted.update(output.metrics.drafts_accepted)
    most = max((place for place, count in histogram.items() if count), default=0)
    counts = [histogram[place] for place in range(most + 1)]
    reached = [sum(counts[depth:]) for depth in range(most + 1)]
    num_iterations = reached[0]
    num_tokens = sum(len(output.token_ids) for output in ended)
    return {
        "output_tokens": num_tokens,
        "iterations": num_iterations,
        "acceptance_length": _share(sum(reached), num_iterations),
        "histogram": counts,
        "accepted_to_depth": [_share(count, num_iterations) for count in reached[1:]],
        "accepted_if_reached": [_share(deeper, count) for count, deeper in pairwise(reached)],
        "proposed": dict(proposed),
        "accepted": dict(accepted),
        "forced_share": _share(accepted["forced"], num_tokens),
    }


def validity(tasks: Sequence[Task], outputs: Sequence[RequestOutput]) -> dict[str, Any]:
    """How many outputs are right.

    guided:            outputs that must match a schema
    whole, cut:        how many of these ended by themselves, and how many at max_tokens
    invalid, unjudged: names of whole outputs that are invalid, or that `jsonschema` cannot judge
    judged, right:     tasks with a known right call, and how many outputs are that call
    errors:            errors of all outputs, by kind
    """
    guided = [
        (task, output)
        for task, output in zip(tasks, outputs, strict=True)
        if task.schema is not None
    ]
    whole = [(task, output) for task, output in guided if output.finish_reason == "stop"]
    names: dict[str, list[str]] = {"invalid": [], "unjudged": []}
    for task, output in whole:
        try:
            if violation(task.schema, bare(output.text)) is not None:
                names["invalid"].append(task.name)
        except LookupError:
            names["unjudged"].append(task.name)
    return {
        "guided": len(guided),
        "whole": len(whole),
        **names,
        "judged": sum(task.right is not None for task in tasks),
        "right": sum(
            task.right is not None and is_right(task.right, bare(output.text))
            for task, output in zip(tasks, outputs, strict=True)
        ),
        "cut": sum(output.finish_reason == "length" for _, output in guided),
        "errors": dict(
            Counter(type(output.error).__name__ for output in outputs if output.error is not None)
        ),
    }


def latencies(outputs: Sequence[RequestOutput]) -> dict[str, Any]:
    """Latencies of requests that ended without an error, counted from when they got their slot:
    milliseconds to the first token and to the end, and the median rate (tokens per second) that a
    user sees after the first token."""
    ended = [output.metrics for output in outputs if output.error is None]
    rates = [1 / metrics.tpot_s for metrics in ended if metrics.tpot_s > 0]
    return {
        "ttft_ms": percentiles(
            [1e3 * (one.time_to_first_token_s - one.queue_s) for one in ended], MIDDLE
        ),
        "latency_ms": percentiles([1e3 * (one.total_s - one.queue_s) for one in ended], MIDDLE),
        "tokens_per_s_per_user": round(float(np.median(rates)), 2) if rates else None,
    }


def times(spans: Iterable[Span], since_ns: int) -> dict[str, Any]:
    """Times from a timeline: milliseconds of a decode iteration on the forward stream, and
    microseconds of a grammar callback, which serves the whole batch."""
    begin, end = dict[Any, int](), defaultdict[Any, int](int)
    callbacks = []
    for span in spans:
        if span.begin_ns < since_ns:
            continue
        if span.track == CALLBACKS:
            callbacks.append((span.end_ns - span.begin_ns) / 1e3)
        elif span.track == FORWARD and span.args.get("phase") == "decode":
            number = span.args["iteration"]
            begin[number] = min(begin.get(number, span.begin_ns), span.begin_ns)
            end[number] = max(end[number], span.end_ns)
    return {
        "iteration_ms": percentiles(
            [(end[number] - first) / 1e6 for number, first in begin.items()], MIDDLE
        ),
        "callback_us": percentiles(callbacks, TAIL),
    }


def grammar_costs(
    tasks: Sequence[Task],
    outputs: Sequence[RequestOutput],
    vocabulary: Vocabulary,
    config: GuideConfig,
) -> dict[str, Any]:
    """What the grammars cost by themselves, on one thread for one request: milliseconds per
    compile, and microseconds per output token to accept it and fill the next row."""
    compiler, row = GrammarCompiler(vocabulary, config), np.zeros(vocabulary.num_words, np.int32)
    compile_ms, token_us = [], []
    for task, output in zip(tasks, outputs, strict=True):
        if task.guide is None or output.error is not None:
            continue
        begin = time.perf_counter()
        try:
            matcher = compiler.compile(task.guide).matcher()
        except SpecguideError:
            continue
        compile_ms.append(1e3 * (time.perf_counter() - begin))
        for token in output.token_ids:
            begin = time.perf_counter()
            matcher.accept(token)
            if not matcher.is_terminated:
                matcher.fill(row)
            token_us.append(1e6 * (time.perf_counter() - begin))
    compiler.close()
    return {
        "compile_ms": percentiles(compile_ms, MIDDLE),
        "grammar_us": percentiles(token_us, TAIL),
    }


def percentiles(values: Sequence[float], shares: Sequence[float]) -> dict[str, float]:
    """Percentiles by their names, such as p50; none if there are no values."""
    if not len(values):
        return {}
    return {
        f"p{share:g}": round(float(found), 3)
        for share, found in zip(shares, np.percentile(values, shares), strict=True)
    }


def _share(part: float, whole: float) -> float:
    return round(part / max(1, whole), 4)
