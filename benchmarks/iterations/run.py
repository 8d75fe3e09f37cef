"""Owns the run of one mode: endless requests on the engine's executor, without a scheduler."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from benchmarks.baselines import ForcedText
from benchmarks.common import facts_of
from benchmarks.gpu.timing import mark_of, ms_between
from benchmarks.guides.real_text import Started
from benchmarks.iterations.modes import Mode
from benchmarks.iterations.workload import Workload
from benchmarks.models.llama_8b import RandomModels, RandomParts
from specguide.batch import Batch, Chunk, SamplingValues, SlotEntry
from specguide.config import CacheConfig, EngineConfig, GuideConfig
from specguide.config.resolved import resolve
from specguide.engine.executors import LocalExecutor, RanksExecutor
from specguide.engine.executors.rank_process import RankBuild
from specguide.engine.requests.walks import Walks
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec

PROMPT_LEN, MAX_LEN, PAGE_SIZE = 30, 2048, 16


class Run:
    """A runner with `batch_size` endless requests under way."""

    def __init__(
        self,
        mode: Mode,
        models: RandomModels,
        batch_size: int,
        workload: Workload,
        *,
        is_traced: bool = False,
        parts: RandomParts | None = None,
    ) -> None:
        """models: what runs, or of several ranks what rank 0 has, without memory
        parts: makes what each of several ranks has; None: there is one
        """
        self.mode = mode
        num_pages = _pages_each(mode)
        self.texts, self.grammars = list[list[int]](), list[Started | None]()
        self._numbers = random.Random(1)
        num_guided = round(mode.guided_share * batch_size)
        for slot in range(batch_size):
            grammar, ahead = workload.of_slot(slot)
            self.grammars.append(grammar if slot < num_guided else None)
            self.texts.append(ahead)
        self._begin_requests()
        self.tables = [
            tuple(range(slot * num_pages, (slot + 1) * num_pages)) for slot in range(batch_size)
        ]
        config = _config(mode, batch_size, workload.guide, is_traced=is_traced)
        self.runner = self._executor(mode, models, config, workload.acceptance, parts)
        self._prefill_all()

    def restart(self) -> None:
        """End the requests, and start others with other prompts, which write the same texts."""
        slots = range(len(self.requests))
        for slot in slots:
            self.runner.grammar.detach(slot)
        while not all(self.runner.grammar.is_idle(slot) for slot in slots):
            time.sleep(1e-3)
        self._begin_requests()
        self._prefill_all()

    def launch(self, slots: Sequence[int], *, is_prefill: bool = False) -> Any:
        batch = self._batch(slots, is_prefill=is_prefill)
        requests = [self.requests[slot] for slot in slots]
        self.runner.grammar.submit(self.walks.snapshot(batch, requests))
        return self.runner.execute(batch)

    def run(self, num_iterations: int) -> list[float]:
        """Run iterations; the host lags behind as in the engine. Returns the milliseconds between
        the ends of successive iterations."""
        slots = range(len(self.requests))
        stream = self.runner.grammar.forward.torch
        batch = self._batch(slots)
        pending = []
        marks = []
        for _ in range(num_iterations + 1):
            pending.append(self.launch(slots))
            marks.append(mark_of(stream))
            if len(pending) > self.runner.capabilities.lag:
                self._take(batch, pending.pop(0))
        for last in pending:
            self._take(batch, last)
        return [ms_between(*pair) for pair in pairwise(marks)]

    def check(self) -> None:
        """Exit unless each output equals its text, and the grammars of guided requests accept
        it."""
        errors = self.runner.grammar.errors(range(len(self.requests)))
        if errors:
            sys.exit(f"requests failed: {errors}")
        for slot, (request, text) in enumerate(zip(self.requests, self.texts, strict=True)):
            if request.output_ids != text[: len(request.output_ids)]:
                sys.exit(f"the output of slot {slot} is not its text")
            grammar = self.grammars[slot]
            if grammar is not None:
                matcher = grammar.matcher()
                if not all(matcher.accept(token) for token in request.output_ids):
                    sys.exit(f"the output of slot {slot} leaves the grammar")

    def close(self) -> None:
        for slot in range(len(self.requests)):
            self.runner.grammar.detach(slot)
        self.runner.close()
        del self.runner
        gc.collect()  # the caches of two cases are more than the device has

    def acceptance_length(self, since: int, num_iterations: int) -> float:
        gained = sum(len(request.output_ids) for request in self.requests) - since
        return gained / num_iterations / len(self.requests)

    @property
    def num_tokens(self) -> int:
        return sum(len(request.output_ids) for request in self.requests)

    def _begin_requests(self) -> None:
        """Begins a request in each slot, with a prompt of random numbers."""
        self.requests, self.walks = list[Request](), Walks()
        for slot, grammar in enumerate(self.grammars):
            prompt = [self._numbers.randrange(128_000) for _ in range(PROMPT_LEN)]
            request = Request(RequestSpec(slot, prompt, SamplingParams(max_tokens=MAX_LEN)))
            self.walks.add(request, grammar, layout=None)
            self.requests.append(request)

    def _executor(
        self,
        mode: Mode,
        models: RandomModels,
        config: EngineConfig,
        acceptance: float,
        ranked: RandomParts | None,
    ) -> LocalExecutor | RanksExecutor:
        """The engine's own, with a target that says the slots' texts."""
        target, layout = models.target, mode.layout
        lines = [
            [*request.prompt_ids, *ahead]
            for request, ahead in zip(self.requests, self.texts, strict=True)
        ]
        spare = [0] * len(lines[0])
        forced = ForcedText(
            [*lines, spare], acceptance if layout.num_model else 1.0, layout.num_drafts
        )
        parts, facts = replace(mode.parts, sampler=forced), facts_of(target)
        if ranked is not None:
            facts = replace(facts, device="cuda" if torch.cuda.is_available() else "cpu")
            config = replace(config, tensor_parallel_size=target.ranks.size)
            return RanksExecutor.load(resolve(config, facts), build=RankBuild(ranked, parts))
        drafter = models.drafters[mode.spec.method] if mode.spec and layout.num_model else None
        return LocalExecutor.build(resolve(config, facts), target, drafter, parts)

    def _batch(self, slots: Sequence[int], *, is_prefill: bool = False) -> Batch:
        batch = Batch(tuple(slots), tuple(slots), tuple(self.tables[slot] for slot in slots))
        if not is_prefill:
            return batch
        requests = [self.requests[slot] for slot in slots]
        chunks = tuple(
            Chunk(request.prompt_ids, 0, starts_walk=request.metrics.num_held == 0)
            for request in requests
        )
        entries = tuple(SlotEntry(MAX_LEN, (), SamplingValues(seed=slot)) for slot in slots)
        return replace(batch, chunks=chunks, entries=entries)

    def _prefill_all(self) -> None:
        batch_size = len(self.requests)
        for first in range(0, batch_size, 16):
            self._prefill(range(first, min(first + 16, batch_size)))

    def _prefill(self, slots: Sequence[int]) -> None:
        """Prefills until each slot has its first token: a slot whose first row is late starts
        again."""
        while slots:
            self._take(self._batch(slots, is_prefill=True), self.launch(slots, is_prefill=True))
            slots = [slot for slot in slots if not self.requests[slot].output_ids]
            for slot in slots:
                self.requests[slot].metrics.num_held += 1

    def _take(self, batch: Batch, pending: Any) -> None:
        output = pending.result()
        for slot, row, num in zip(
            batch.slots, output.tokens.tolist(), output.num_tokens.tolist(), strict=True
        ):
            self.requests[slot].output_ids += row[:num]


def _pages_each(mode: Mode) -> int:
    """The pages of a request: those of its context, and of what an iteration may write behind
    it."""
    layout = mode.layout
    num_behind = layout.num_drafts + layout.num_positions + 1
    return -(-(MAX_LEN + num_behind) // PAGE_SIZE)


def _config(mode: Mode, batch_size: int, guide: GuideConfig, *, is_traced: bool) -> EngineConfig:
    return EngineConfig(
        spec=mode.spec,
        guide=replace(guide, callbacks=mode.callbacks) if mode.has_guides else None,
        max_batch_size=batch_size,
        max_model_len=MAX_LEN,
        trace=is_traced,
        cache=CacheConfig(
            page_size=PAGE_SIZE,
            num_pages=batch_size * _pages_each(mode),
            kv_cache_dtype=mode.cache,
        ),
    )
