"""Owns the measured times of iterations, and what follows from them: how many prompt tokens the
next one may carry, and how long a new request would wait."""

from __future__ import annotations

from specguide.batch import Batch
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.sequence import HEAD_START_S, priority_steps
from specguide.scheduler.service_rates import ServiceRates
from specguide.scheduler.step_budget import StepBudget
from specguide.scheduler.waiting import WaitingQueue


class Pace:
    """Learns the time of every committed iteration.

    budget: how many prompt tokens an iteration may carry
    """

    def __init__(self, limits: SchedulerLimits) -> None:
        self.budget = StepBudget(limits.max_prefill_tokens, limits.max_step_s, limits.min_slowdown)
        self._rates = ServiceRates()
        self._nodes_each = limits.num_nodes

    def take(self, batch: Batch, num_output: int, seconds: float, *, is_busy: bool) -> None:
        """Take the output tokens and the time of an iteration.

        is_busy: requests wait. Only then the iteration counts for waiting times: an engine with
                 free slots runs at another speed
        """
        num_decoding = 0 if batch.is_prefill else len(batch.slots)
        self.budget.take(num_decoding * self._nodes_each, batch.num_prompt_tokens, seconds)
        if is_busy:
            self._rates.take(batch.num_prompt_tokens, num_output, seconds)

    def wait_s(self, waiting: WaitingQueue, client: str, priority: int) -> float:
        """Seconds until a request that came now would get a slot: the time of all waiting requests
        of its client and of as much work of each other client, or of all waiting requests where
        that is less. 0 where no request waits, or none has waited yet."""
        everyone = waiting.load()
        if not everyone.num_requests:
            return 0.0
        all_s, own_s = (
            self._rates.seconds(load.num_prompt_tokens, load.num_output_tokens)
            for load in (everyone, waiting.load(client))
        )
        turn_s = all_s / everyone.num_requests
        num_clients = waiting.num_clients + (own_s == 0)
        fair_s = min(all_s, (own_s + turn_s) * num_clients)
        return max(0.0, fair_s - HEAD_START_S * priority_steps(priority))
