"""Owns what a soak sees of an engine: its iterations, its memory, and whether every request came
back right."""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.soaks.load import Job
from specguide import Guide
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.observers import Committed
from specguide.engine.requests.admission import Admitted
from specguide.guided.backends import CompiledGrammar
from specguide.params import SamplingParams
from specguide.request import Request
from specguide.tokenizer import Tokenizer

MB = 1 << 20
MEMORY_TOLERANCE = {"allocated": 8 * MB, "reserved": 64 * MB, "device": 128 * MB, "rss": 32 * MB}
"""What may be added between half of a phase and its end, bytes. The launcher's tensors come and go
within the first; blocks that the allocator keeps, kernels that are compiled late, and what the
grammar libraries remember of their lexers, which is most of it before half of the phase is over,
within the others."""


class Iteration(NamedTuple):
    """One as the host saw it.

    ms:       since the one before was committed
    prefills: requests whose prefill was committed or launched in that time, which is eager
    held:     slots that accepted nothing
    """

    ms: float
    prefills: int
    held: int


class WatchedEngine(Engine):
    """An engine that notes its iterations.

    wrap:        what becomes of the grammar of the request `wrapped`
    num_decodes: decode iterations whose results have come
    """

    def __init__(
        self, config: EngineConfig, wrap: Callable[[CompiledGrammar], Any] | None = None
    ) -> None:
        super().__init__(config)
        self.iterations: list[Iteration] = []
        self.wrapped: Request | None = None
        self.num_decodes = 0
        self._wrap = wrap
        self._last_s = 0.0
        self._cycle.observers.append(self)
        self._admit_as_it_is = self._admission.admit
        setattr(self._admission, "admit", self._admit)  # noqa: B010

    def compile(self, schemas: Iterable[str]) -> None:
        """Have their grammars in the cache."""
        for schema in schemas:
            self._admission.compiler.compile(Guide(json_schema=schema))

    def pause(self) -> None:
        """The time from here to the next commit is no iteration's."""
        self._last_s = 0.0

    def take(self, committed: Committed) -> None:
        """Takes an iteration, as an observer of the engine."""
        batch = committed.batch
        self.num_decodes += not batch.is_prefill
        now_s = perf_counter()
        near = [batch, *(other.batch for other in list(self._cycle.in_flight)[-1:])]
        if self._last_s:
            self.iterations.append(
                Iteration(
                    ms=1e3 * (now_s - self._last_s),
                    prefills=sum(len(each.slots) for each in near if each.is_prefill),
                    held=sum(advance.is_held for advance in committed.advances),
                )
            )
        self._last_s = now_s

    def _admit(self, request: Request, compiled: Future[CompiledGrammar] | None) -> Admitted:
        admitted = self._admit_as_it_is(request, compiled)
        if request is not self.wrapped or self._wrap is None:
            return admitted
        return admitted._replace(grammar=self._wrap(admitted.grammar))


class Ledger:
    """Which requests are under way, and whether those that ended were right.

    outputs: tokens of the last greedy output of each job, by its number
    faults:  what was wrong, one line each
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        grammar_of: Callable[[SamplingParams], CompiledGrammar | None],
    ) -> None:
        self._tokenizer, self._grammar_of = tokenizer, grammar_of
        self._under_way: dict[Request, Job] = {}
        self._unchecked: list[tuple[Request, Job]] = []
        self.outputs: dict[int, tuple[int, ...]] = {}
        self.faults: list[str] = []
        self.totals: Counter[str] = Counter()

    def add(self, request: Request, job: Job) -> None:
        """The request was given to the engine."""
        self._under_way[request] = job
        self.totals["requests"] += 1
        self.totals["sampled"] += request.params.temperature > 0

    def take(self, request: Request) -> None:
        """The engine has returned it."""
        job = self._under_way.pop(request, None)
        if job is None:
            self.faults.append(f"request {request.request_id} was returned twice")
        else:
            self._unchecked.append((request, job))

    def is_under_way(self, request: Request | None) -> bool:
        """Added and not yet taken."""
        return request in self._under_way

    def check(self) -> None:
        """Walk each output through a fresh matcher, and validate those that their grammar ended."""
        for request, job in self._unchecked:
            fault = self._fault(request, job)
            if fault is not None:
                self.faults.append(f"request {request.request_id}, job {job.number}: {fault}")
            metrics = request.metrics
            self.totals.update(
                {
                    str(request.finish_reason): 1,
                    "output_tokens": len(request.output_ids),
                    "iterations": metrics.num_iterations,
                    "held": metrics.num_held,
                }
            )
        self._unchecked.clear()

    def close(self) -> None:
        """Notes a fault for each request that has not come back."""
        self.check()
        self.faults += [f"request {request.request_id} was lost" for request in self._under_way]

    def _fault(self, request: Request, job: Job) -> str | None:
        if request.finish_reason not in ("stop", "length"):
            return f"ended by {request.finish_reason}: {request.error}"
        tokens = tuple(request.output_ids)
        if tokens == self.outputs.get(job.number):
            return None
        grammar = self._grammar_of(request.params)
        assert grammar is not None
        matcher = grammar.matcher()
        refused = next((at for at, token in enumerate(tokens) if not matcher.accept(token)), None)
        if refused is not None:
            return f"its grammar refuses token {refused}, {tokens[refused]}"
        if request.finish_reason == "stop":
            if not matcher.is_terminated:
                return "it stopped where its grammar goes on"
            text = self._tokenizer.decode(tokens)
            if not job.validator.is_valid(json.loads(text)):
                return f"{text} does not match {job.schema}"
        if request.params.temperature == 0:
            self.outputs[job.number] = tokens
        return None


def counter_faults(engine: WatchedEngine, totals: Counter[str]) -> list[str]:
    """What the executor counted, held against what the requests say; all of them have ended.

    A request runs along for up to `lag` iterations after its end, and behind a prefill that is held
    for as many that give nothing; its own figures leave both out, and may leave out that prefill.
    """
    stats = engine.stats()
    pages = engine._pages
    capabilities = engine._executor.capabilities
    counted = stats.grammar
    num_nodes = capabilities.layout.num_drafts + 1
    slack = capabilities.lag * totals["requests"]
    walked = totals["iterations"] + totals["held"] + totals["requests"]  # and a prefill each
    num_walks = 2 if counted["guessed_draft_rows"] else 1  # what was guessed is walked again
    most = num_walks * num_nodes
    held = counted["held"]  # at most so many prefills, which `walked` may count twice
    rules = {
        "tokens given out are those that requests have": stats.output_tokens
        == totals["output_tokens"],
        "guided iterations are those of the requests": walked - held
        <= counted["iterations"]
        <= walked + 2 * slack + held,
        # Behind a prefill that is held, `lag` iterations are under way that give nothing, their
        # rows in time or not.
        "held slots are those of the requests": held - slack
        <= totals["held"]
        <= (1 + capabilities.lag) * held,
        "no walk has more than K + 1 fills": counted["max_fills"] <= most,
        "no walk has more than K + 1 accepts": counted["max_accepts"] <= most,
        "no walk has more than one rollback": counted["max_rollbacks"] <= num_walks,
        "fills add up": totals["requests"] <= counted["fills"] <= most * counted["iterations"],
        "all pages are free": pages.num_free == pages.num_pages,
    }
    figures = f"counted {dict(counted)}, requests {dict(totals)}"
    return [f"not so: {rule} ({figures})" for rule, holds in rules.items() if not holds]


@dataclass(frozen=True)
class Memory:
    """Bytes: of torch's allocator in use and kept, in use on the whole device, and resident in the
    process."""

    allocated: int
    reserved: int
    device: int
    rss: int

    @classmethod
    def now(cls) -> Memory:
        """0 of the GPU's where there is none."""
        gc.collect()
        rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if not torch.cuda.is_available():
            return cls(0, 0, 0, rss)
        free, total = torch.cuda.mem_get_info()
        return cls(torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), total - free, rss)


def memory_faults(first: Memory, last: Memory) -> list[str]:
    """What grew by more than MEMORY_TOLERANCE."""
    return [
        f"{name} memory grew by {(getattr(last, name) - getattr(first, name)) / MB:.1f} MB"
        for name, tolerance in MEMORY_TOLERANCE.items()
        if getattr(last, name) - getattr(first, name) > tolerance
    ]


def in_mb(memory: Memory) -> dict[str, float]:
    return {name: round(value / MB, 1) for name, value in asdict(memory).items()}


def distribution(iterations: Sequence[Iteration]) -> dict[str, float]:
    """The distribution of times in milliseconds."""
    if not iterations:
        return {"num": 0}
    times = np.array([iteration.ms for iteration in iterations])
    median, p99, p999 = np.percentile(times, (50, 99, 99.9))
    return {
        "num": len(times),
        "median": round(float(median), 3),
        "p99": round(float(p99), 3),
        "p99.9": round(float(p999), 3),
        "max": round(float(times.max()), 3),
    }


def slowest(iterations: Sequence[Iteration], most: int = 40) -> list[dict[str, float]]:
    """The slowest 0.1 %, `most` at most: which, how long, and what happened."""
    order = sorted(range(len(iterations)), key=lambda index: -iterations[index].ms)
    return [
        {"index": index, **iterations[index]._asdict(), "ms": round(iterations[index].ms, 2)}
        for index in order[: min(most, -(-len(iterations) // 1000))]
    ]
