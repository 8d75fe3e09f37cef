"""Owns a closed loop on an engine in this process, with records of its iterations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.timing import mark_of, ms_between
from specguide.batch import Batch
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors import Executor
from specguide.params import SamplingParams
from specguide.request import Request


class Noted(NamedTuple):
    """The record of an iteration.

    begin, end: marks on the forward stream
    host_s:     from its plan to its launch, seconds
    """

    batch: Batch
    begin: Any
    end: Any
    host_s: float


class NotedEngine(Engine):
    """An engine that records its iterations. noted: the records, in order"""

    def __init__(self, config: EngineConfig, executor: Executor) -> None:
        super().__init__(config, executor, makes_texts=False)
        self.noted: list[Noted] = []
        self._planned_s = 0.0
        self._submit, self._launch = self._cycle.submit, self._cycle.launch
        setattr(self._cycle, "submit", self._note_submit)  # noqa: B010
        setattr(self._cycle, "launch", self._note_launch)  # noqa: B010

    def _note_submit(self, batch: Batch, requests: Sequence[Request]) -> None:
        self._planned_s = perf_counter()
        self._submit(batch, requests)

    def _note_launch(self, batch: Batch, requests: Sequence[Request]) -> None:
        stream = self._grammar.forward.torch
        begin = mark_of(stream)
        self._launch(batch, requests)
        host_s = perf_counter() - self._planned_s
        self.noted.append(Noted(batch, begin, mark_of(stream), host_s))


def run_loop(
    engine: NotedEngine, num_clients: int, rounds: int, lengths: tuple[int, int]
) -> list[Request]:
    """Run clients that send their next request as soon as they have an answer, `rounds` times each.
    Returns the requests. lengths: tokens of a prompt and of an output"""
    numbers = random.Random(2)
    prompt_len, output_len = lengths
    params = SamplingParams(max_tokens=output_len, temperature=0.0, ignore_eos=True)
    num_left = num_clients * rounds
    requests = []
    engine.noted = []
    while num_left or engine.num_unfinished:
        while num_left and engine.num_unfinished < num_clients:
            prompt = [numbers.randrange(1 << 10) for _ in range(prompt_len)]
            requests.append(engine.add(prompt, params))
            num_left -= 1
        engine.step()
    return requests


def loop_figures(
    noted: Sequence[Noted], num_clients: int, seconds: float, num_tokens: int
) -> dict[str, Any]:
    """Figures of the middle half of a loop's iterations, in which all clients are busy, and the
    rate of the whole loop."""
    middle = noted[len(noted) // 4 : len(noted) * 3 // 4]
    spent = np.array([ms_between(each.begin, each.end) for each in middle])
    since = list(pairwise(middle))
    gaps = np.array([ms_between(one.end, other.begin) for one, other in since])
    steps = np.array([ms_between(one.end, other.end) for one, other in since])
    prompts = np.array([each.batch.num_prompt_tokens for each in middle])
    decoding = np.array([len(each.batch.slots) for each in middle if not each.batch.is_prefill])
    return {
        "clients": num_clients,
        "tokens_per_s": round(num_tokens / seconds),
        "steady_tokens_per_s": round(1e3 * decoding.sum() / steps.sum()),
        "iterations": len(noted),
        "with_prompts": round(float((prompts > 0).mean()), 3),
        "prompt_tokens": _spread(prompts[prompts > 0]),
        "decoding": _spread(decoding),
        "step_ms": _spread(steps),
        "gpu_ms": _spread(spent),
        "gap_ms": _spread(gaps),
        "host_ms": _spread(np.array([1e3 * each.host_s for each in middle])),
        "by_size": _by_size(middle, spent),
    }


def _spread(values: np.ndarray) -> list[float]:
    """The mean, the median and the 99th percentile."""
    if not len(values):
        return []
    return [round(float(each), 3) for each in (values.mean(), *np.percentile(values, (50, 99)))]


def _by_size(noted: Sequence[Noted], spent: np.ndarray) -> list[list[float]]:
    """Decode iterations by their prompt tokens, in steps of 64. Each row has the tokens (rounded
    down), the number of iterations, and the means of decoding requests and of milliseconds."""
    rows: dict[int, list[tuple[int, float]]] = {}
    for each, ms in zip(noted, spent, strict=True):
        if not each.batch.is_prefill:
            step = each.batch.num_prompt_tokens // 64 * 64
            rows.setdefault(step, []).append((len(each.batch.slots), float(ms)))
    return [
        [step, len(rows[step]), *(round(float(mean), 2) for mean in np.mean(rows[step], axis=0))]
        for step in sorted(rows)
    ]
