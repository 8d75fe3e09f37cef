"""Owns the simulation of a closed loop: the real scheduler, with clients that always have a request
under way, and a device whose iterations take as long as those of an 8B model on one H200."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from specguide.batch import Batch
from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.piggyback import PiggybackLimits, num_graph_slots
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler, SchedulerLimits
from specguide.speculation.prefill_plan import PIGGYBACK_LIMITS

PAGE_SIZE, MAX_PREFILL_TOKENS = 64, 2048
WORD = 7
_CLIENT_S = 2e-3
"""From the end of an answer until the client's next request is here."""
_SCATTER = 0.03
"""Scatter of an iteration's time, as a part of it."""
_PRODUCTS = (
    (1, 3.7),
    (64, 3.79),
    (128, 4.2),
    (192, 4.77),
    (256, 6.15),
    (320, 7.45),
    (384, 8.6),
    (448, 13.6),
    (512, 10.95),
    (576, 12.7),
    (640, 13.55),
    (704, 15.6),
    (768, 15.95),
    (832, 18.8),
    (896, 18.9),
    (960, 20.0),
    (1024, 21.4),
    (1152, 23.4),
    (1280, 26.43),
    (1536, 31.32),
    (2048, 42.0),
    (4096, 84.0),
)
"""Rows, and milliseconds of all products but the output matrix. Whole tiles of 128 rows, up to
1,152, are what closed loops leave for products on a GPU at its power limit: up to 0.3 ms more than
alone with few rows, and up to 0.8 less with many. Rows between them were measured alone, and
changed as their neighbours are."""
_PIGGYBACK = replace(PIGGYBACK_LIMITS, max_slots=128)


@dataclass(frozen=True)
class _Cost:
    """Beside the target's products: of an iteration, of each request in it, of prompts beside, and
    of each of their tokens."""

    iteration_s: float = 0.52e-3
    request_s: float = 21.5e-6
    beside_s: float = 0.3e-3
    token_s: float = 1.2e-6


_WITH_HEAD = _Cost(1.1e-3, 46e-6, 0.45e-3, 2.0e-6)


@dataclass(frozen=True)
class Loop:
    """What is tried: clients, and the scheduler's settings, as in SchedulerLimits.

    rounds:    requests of each client
    lengths:   tokens of a prompt and of an output
    scatter:   by which part these differ, evenly
    num_slots: requests that run at once
    num_drafts: K, of each request; an iteration accepts `accepted` of them in the mean, by K trials
    """

    num_clients: int
    max_step_s: float
    min_slowdown: float = 0.0
    piggyback: PiggybackLimits = _PIGGYBACK
    rounds: int = 3
    lengths: tuple[int, int] = (512, 128)
    scatter: float = 0.0
    num_slots: int = 128
    num_drafts: int = 0
    accepted: float = 0.0


def device_s(batch: Batch, piggyback: PiggybackLimits) -> float:
    """Seconds of an iteration as measured with Llama-3.1-8B in bfloat16 on an H200 at its power
    limit (the loops of `python -m benchmarks.mixed_iterations`): where 60 requests decode 5.6 ms,
    with 192, 320 and 448 prompt tokens 8.5, 11.1 and 13.6; where 124 decode 7.4, with 511 and 1,022
    17.4 and 28.1. With three drafts of an EAGLE-3 head as the service is with them."""
    if batch.is_prefill:
        return batch.num_prompt_tokens / 43_100
    highest_slot = max(batch.slots)
    num_tokens = batch.num_prompt_tokens
    rows = num_graph_slots(highest_slot, piggyback.max_slots) * piggyback.nodes_each
    cost = _Cost() if piggyback.nodes_each == 1 else _WITH_HEAD
    beside_s = 0.0
    if num_tokens:
        filled = piggyback.beside(highest_slot).size_for(num_tokens)
        rows = piggyback.num_slots(highest_slot) * piggyback.nodes_each + filled
        beside_s = cost.beside_s + cost.token_s * filled
    products_s = float(np.interp(rows, *np.transpose(_PRODUCTS))) * 1e-3
    return products_s + cost.iteration_s + cost.request_s * len(batch.slots) + beside_s


@dataclass
class ClosedLoop:
    """Runs a loop. The host plans an iteration before it reads the last one's results.

    arrivals_s: of each request's tokens, behind when it was asked; those of an iteration come
                together
    """

    loop: Loop
    now_s: float = 0.0
    asked_s: dict[int, float] = field(default_factory=dict)
    arrivals_s: dict[int, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one = self.loop
        self._random = Random(1)
        self._piggyback = replace(one.piggyback, nodes_each=1 + one.num_drafts)
        most = 2 * sum(one.lengths)
        limits = SchedulerLimits(
            one.num_slots,
            most,
            MAX_PREFILL_TOKENS,
            one.num_drafts,
            one.num_drafts,
            PAGE_SIZE,
            self._piggyback,
            one.max_step_s,
            one.min_slowdown,
        )
        num_pages = one.num_slots * (2 + most // PAGE_SIZE)
        self.scheduler = Scheduler(limits, PageAllocator(num_pages), [0], lambda slot: True)
        self._due = [0.0] * one.num_clients
        self._num_left = one.num_clients * one.rounds
        self._idle_s: float | None = None

    def run(self) -> dict[str, Any]:
        """Runs to the end. Returns its figures."""
        under_way: deque[tuple[Batch, Sequence[Request], float]] = deque()
        end_s = 0.0
        while self._num_left or self.scheduler.num_unfinished:
            self._ask()
            batch, requests, _ = self.scheduler.schedule()
            if batch is not None:
                seconds = device_s(batch, self._piggyback)
                seconds *= 1 + _SCATTER * abs(self._random.gauss(0, 1))
                end_s = max(end_s, self.now_s) + seconds
                under_way.append((batch, requests, seconds))
                if len(under_way) == 1:
                    continue
            if under_way:
                done, its_requests, took_s = under_way.popleft()
                self.now_s = end_s - sum(each[2] for each in under_way)
                self._commit(done, its_requests, took_s)
            elif self._due:
                self.now_s = max(self.now_s, self._due[0])
        self.scheduler.check_integrity()
        return self._figures()

    def _ask(self) -> None:
        while self._num_left and self._due and self._due[0] <= self.now_s:
            number, at_s = len(self.asked_s), heapq.heappop(self._due)
            self._num_left -= 1
            self.asked_s[number] = at_s
            self.arrivals_s[number] = []
            prompt_len, output_len = map(self._drawn, self.loop.lengths)
            params = SamplingParams(max_tokens=output_len, ignore_eos=True)
            spec = RequestSpec(number, (number,) * prompt_len, params, arrival_s=at_s)
            self.scheduler.add(Request(spec))

    def _drawn(self, length: int) -> int:
        return round(length * (1 + self.loop.scatter * self._random.uniform(-1, 1)))

    def _commit(self, batch: Batch, requests: Sequence[Request], took_s: float) -> None:
        chunks = batch.chunks or (None,) * len(requests)
        tokens = [
            [WORD] * self._num_gained(row in batch.first_rows)
            if chunk is None or chunk.next_id is None
            else []
            for row, chunk in enumerate(chunks)
        ]
        commit = self.scheduler.commit(batch, tokens, {})
        self.scheduler.take_time(batch, commit.advances, took_s)
        for request, advance in zip(requests, commit.advances, strict=True):
            self.arrivals_s[request.request_id] += [self.now_s] * len(advance.tokens)
        for _ in commit.finished:
            heapq.heappush(self._due, self.now_s + _CLIENT_S)
            if not self._num_left and self._idle_s is None:
                self._idle_s = self.now_s

    def _num_gained(self, is_first: bool) -> int:
        """Tokens; no draft is verified in the first iteration of a request."""
        if is_first or not self.loop.num_drafts:
            return 1
        share = self.loop.accepted / self.loop.num_drafts
        return 1 + sum(self._random.random() < share for _ in range(self.loop.num_drafts))

    def _figures(self) -> dict[str, Any]:
        """Rate while all clients are busy; times to the first token and between tokens."""
        assert self._idle_s is not None
        all_s = [at_s for times in self.arrivals_s.values() for at_s in times]
        num_busy = sum(at_s <= self._idle_s for at_s in all_s)
        ttft_ms = [1e3 * (times[0] - self.asked_s[one]) for one, times in self.arrivals_s.items()]
        gaps_ms = [
            gap for times in self.arrivals_s.values() for gap in 1e3 * np.diff(np.unique(times))
        ]
        return {
            "tokens_per_s": round(num_busy / self._idle_s),
            "ttft_p50_ms": round(float(np.percentile(ttft_ms, 50))),
            "ttft_p99_ms": round(float(np.percentile(ttft_ms, 99))),
            "gap_p50_ms": round(float(np.percentile(gaps_ms, 50)), 1),
            "gap_p99_ms": round(float(np.percentile(gaps_ms, 99)), 1),
        }
