"""Owns the simulation of the scheduler: the real one, with a clock and an executor that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.simulations.scheduler_traffic import (
    LARGEST_COST,
    MAX_TOKENS,
    SHAPES,
    Traffic,
    max_min_shares,
)
from specguide.batch import Batch
from specguide.cache import PageAllocator
from specguide.request import Request
from specguide.scheduler import Scheduler, SchedulerLimits

END, WORD, WINDOW, PAGE_SIZE, NUM_PAGES, NUM_SLOTS = 0, 7, 32, 64, 8_000, 64


def device_s(num_rows: int, num_prompt_tokens: int) -> float:
    """Seconds of an iteration, as an 8B model's on a large GPU that gains `WINDOW` tokens at once
    by as many plain iterations."""
    decode_s = WINDOW * max(4.2e-3, 1.5e-3 + 22e-6 * num_rows) if num_rows else 0.0
    return decode_s + 22e-6 * num_prompt_tokens


class SchedulerSimulation:
    """Runs the traffic, and watches who waits for how much that others are served.

    A request is starved that waits longer than its share says: until each client that waits has
    been served as much as is before it of its own client's, and twice the largest request, since
    neither costs nor turns can be split.
    """

    def __init__(self, seed: int) -> None:
        limits = SchedulerLimits(NUM_SLOTS, 20_000, 8_192, WINDOW - 1, WINDOW - 1, PAGE_SIZE)
        self.scheduler = Scheduler(limits, PageAllocator(NUM_PAGES), [END], lambda slot: True)
        self.traffic = Traffic(seed)
        self.now_s, self.num_ended = 0.0, 0
        self._served_cost, self._most_clients = 0, 0
        self._waiting: dict[int, tuple[int, int]] = {}
        """What was served when a request came, and what it may wait for of each client."""
        self._waited: list[tuple[int, int]] = []
        """What was served meanwhile, and the same."""
        self._open_costs: Counter[str] = Counter()
        self._waiting_costs: Counter[str] = Counter()
        self.served: Counter[str] = Counter()
        self.waits_s: dict[str, list[float]] = {kind: [] for kind in SHAPES}

    def run(self, num_requests: int) -> None:
        """Runs until so many requests have ended."""
        while self.num_ended < num_requests:
            for request in self.traffic.due(self.now_s):
                self._add(request)
            batch, requests, _ = self.scheduler.schedule()
            if batch is None:
                self.now_s = self.traffic.next_s
                continue
            for request in requests:
                if request.request_id in self._waiting:
                    self._begin(request)
            self._step(batch, requests)

    def _add(self, request: Request) -> None:
        client = request.spec.client
        cost = self._cost(request)
        before_it = self._waiting_costs[client] + 2 * LARGEST_COST
        self._waiting[request.request_id] = self._served_cost, before_it
        self._waiting_costs[client] += cost
        self._open_costs[client] += cost
        self._most_clients = max(self._most_clients, len(self._waiting_costs))
        self.scheduler.add(request)

    def _begin(self, request: Request) -> None:
        """The request has just been given a slot."""
        client = request.spec.client
        cost = self._cost(request)
        served_before, before_it = self._waiting.pop(request.request_id)
        self._waited.append((self._served_cost - served_before, before_it))
        self._served_cost += cost
        self._waiting_costs[client] -= cost
        if not self._waiting_costs[client]:
            del self._waiting_costs[client]
        self.waits_s[kind_of(client)].append(self.now_s - request.arrival_s)

    def _step(self, batch: Batch, requests: Sequence[Request]) -> None:
        num_rows = 0 if batch.is_prefill else len(batch.slots)
        tokens = [self._said(batch, row, request) for row, request in enumerate(requests)]
        seconds = device_s(num_rows, batch.num_prompt_tokens)
        commit = self.scheduler.commit(batch, tokens, {})
        self.scheduler.take_time(batch, commit.advances, seconds)
        self.now_s += seconds
        for request in commit.finished:
            self._end(request)

    def _said(self, batch: Batch, row: int, request: Request) -> list[int]:
        if batch.is_prefill and batch.chunks[row].next_id is not None:
            return []
        num_left = self.traffic.output_lens[request.request_id] - len(request.output_ids)
        num_said = min(num_left, 1 if batch.is_prefill else WINDOW)
        return [WORD] * (num_said - 1) + [END if num_said == num_left else WORD]

    def _end(self, request: Request) -> None:
        client = request.spec.client
        self._open_costs[client] -= self._cost(request)
        self.served[client] += self._cost(request) - request.metrics.num_cached
        self.num_ended += 1
        self.traffic.end(request, self.now_s)

    def _cost(self, request: Request) -> int:
        return len(request.prompt_ids) + self.traffic.output_lens[request.request_id]

    def of_share(self) -> dict[str, float]:
        """What each client was served, as a part of its max-min share; of those whose share is
        many requests."""
        demands = {client: cost + self._open_costs[client] for client, cost in self.served.items()}
        shares = max_min_shares(demands, sum(self.served.values()))
        return {
            client: self.served[client] / share
            for client, share in shares.items()
            if share > 10 * LARGEST_COST
        }

    def figures(self) -> dict[str, Any]:
        """How it went: starvation, fairness, and waits by shape."""
        slack = NUM_SLOTS * MAX_TOKENS  # of outputs that were expected to be shorter
        parts = [cost / (own * self._most_clients + slack) for cost, own in self._waited]
        of_share = self.of_share()
        return {
            "requests": self.num_ended,
            "simulated_s": round(self.now_s),
            "clients_waiting_max": self._most_clients,
            "starved": sum(part > 1 for part in parts),
            "longest_wait_of_bound": round(max(parts), 3),
            "clients_compared": len(of_share),
            "least_served_of_share": round(min(of_share.values(), default=1.0), 3),
            "most_served_of_share": round(max(of_share.values(), default=1.0), 3),
            "wait_s_p50_p99_max": {
                kind: [round(float(np.percentile(waits, q)), 2) for q in (50, 99, 100)]
                for kind, waits in self.waits_s.items()
                if waits
            },
        }


def kind_of(client: str) -> str:
    """The shape by which a client asks."""
    return client.split()[0]
