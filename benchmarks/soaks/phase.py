"""Owns one phase of a soak: an engine of its own whose slots are filled up again and again."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.soaks.disturbances import StallingGrammar, launching
from benchmarks.soaks.jobs import Job, params_of, requests
from benchmarks.soaks.ledger import Ledger, counter_faults
from benchmarks.soaks.memory import Memory, in_mb, memory_faults
from benchmarks.soaks.spinners import Spinners
from benchmarks.soaks.watched_engine import WatchedEngine, distribution, slowest
from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig
from specguide.request import Request

STALL_S, STALL_EVERY, DEADLINE_US = 0.02, 50, 2000
CHECK_EVERY = 256
CACHE = CacheConfig(kv_cache_memory_bytes=4 << 30)  # others may use the device, too
SWITCH_INTERVAL_S = 2e-5  # at the usual 5 ms each call of torch would wait for up to 20
WARM_UP_S = 300  # in which all kernels may have to be compiled
MEMORY_AT = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Phase:
    """What an engine is put through.

    num_iterations, seconds: whichever is reached first ends it
    stalls:                  None: all matchers are native; else one request's goes through Python,
                             and True: sleeps
    """

    name: str
    num_iterations: int
    seconds: float
    num_spinners: int = 0
    stalls: bool | None = None

    def config(self, batch: int) -> EngineConfig:
        """The configuration of its engine."""
        config = EngineConfig(spec=SpecConfig(), max_batch_size=batch, cache=CACHE)
        if self.stalls is None:
            return config
        return replace(config, dtype="float32", guide=GuideConfig(deadline_us=DEADLINE_US))


class Soak:
    """The run of one phase."""

    def __init__(self, phase: Phase, pool: Sequence[Job], batch: int, hang_s: float) -> None:
        self.phase, self.batch, self._pool = phase, batch, pool
        self._hang_s = hang_s
        self._alive_s = 0.0
        self.engine = WatchedEngine(
            phase.config(batch),
            lambda grammar: StallingGrammar(grammar, STALL_S if phase.stalls else 0.0, STALL_EVERY),
        )
        self.ledger = Ledger(self.engine.tokenizer, self.engine.grammar_of)
        self.memory = dict[float, Memory]()
        num_slow = 0 if phase.stalls is None else len(pool) // 8
        self._slow, self._others = self._slow_jobs(pool[:num_slow]), requests(pool[num_slow:])
        self._slow_request: Request | None = None
        self.slow_held = 0
        self.slow_numbers = {job.number for job in pool[:num_slow]}

    def run(self) -> dict[str, Any]:
        """Full slots until the phase is over, then to the end of all requests. Its row."""
        faulthandler.dump_traceback_later(WARM_UP_S, exit=True)
        self.engine.warm_up()
        self.engine.compile(job.schema for job in self._pool)
        self._sign_of_life()
        with ExitStack() as beside:
            beside.enter_context(launching(torch.cuda.is_available() and self.phase.stalls is None))
            spinners = beside.enter_context(Spinners(self.phase.num_spinners, SWITCH_INTERVAL_S))
            begin = time.perf_counter()
            self._serve(begin, spinners)
            seconds = time.perf_counter() - begin
        iterations = list(self.engine.iterations)
        num_decodes = self.engine.num_decodes
        while self.engine.num_unfinished:
            self._step()
        self.ledger.close()
        decodes = [iteration for iteration in iterations if not iteration.prefills]
        grammar = self.engine.stats().grammar
        row = {
            "phase": self.phase.name,
            "seconds": round(seconds, 1),
            "decode_iterations": num_decodes,
            "spinners": self.phase.num_spinners,
            "of_requests": dict(self.ledger.totals),
            "held_slots": grammar["held"],
            "held_slots_of_slow_request": self.slow_held,
            "late_draft_rows": grammar["late_draft_rows"],
            "ms": distribution(iterations),
            "ms_without_prefill": distribution(decodes),
            "slowest": slowest(iterations),
            "memory_mb": {f"{share:.0%}": in_mb(memory) for share, memory in self.memory.items()},
            "faults": [
                *self.ledger.faults,
                *memory_faults(self.memory[0.5], self.memory[1.0]),
                *counter_faults(self.engine, self.ledger.totals),
            ],
        }
        self.engine.check_integrity()
        self.engine.close()
        faulthandler.cancel_dump_traceback_later()
        return row

    def _serve(self, begin: float, spinners: Spinners) -> None:
        marks = list(MEMORY_AT)
        num_steps = 0
        while marks:
            share = max(
                self.engine.num_decodes / self.phase.num_iterations,
                (time.perf_counter() - begin) / self.phase.seconds,
            )
            if num_steps % CHECK_EVERY == 0 or share >= marks[0]:
                with spinners.resting():
                    self.ledger.check()
                while marks and share >= marks[0]:
                    self.memory[marks.pop(0)] = Memory.now()
                self.engine.pause()
            if marks and self.engine.num_unfinished <= 3 * self.batch // 4:
                for _ in range(self.batch - self.engine.num_unfinished):
                    self._add()
            self._step()
            num_steps += 1

    def _step(self) -> None:
        for request in self.engine.step():
            self.ledger.take(request)
            if request is self._slow_request:
                self.slow_held += request.metrics.num_held
        self._sign_of_life()

    def _add(self) -> None:
        is_slow = self.phase.stalls is not None and not self.ledger.is_under_way(self._slow_request)
        job, params = next(self._slow if is_slow else self._others)
        request = self.engine.add(job.prompt_ids, params)
        self.ledger.add(request, job)
        if is_slow:
            self._slow_request = request
            self.engine.wrapped = request

    def _slow_jobs(self, pool: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
        while True:
            for job in pool:
                yield job, params_of(job)

    def _sign_of_life(self) -> None:
        """The watchdog is a thread of C, which needs no GIL."""
        if time.perf_counter() - self._alive_s > 1:
            faulthandler.dump_traceback_later(self._hang_s, exit=True)
            self._alive_s = time.perf_counter()
