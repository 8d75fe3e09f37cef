"""Owns how much an iteration drafts where that is chosen: by what was accepted, and by what it
takes.

A level is a part of all drafts that there may be, level 0 is none. Whichever gains most tokens a
second runs, and the others are tried now and then: one at a time, the less often the longer that
does not pay, and never for more than a small share of the time. So where nothing is ever accepted
it takes hardly longer than plain decoding. Where many slots run, the larger levels are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specguide.batch import Batch
from specguide.drafts.layout import NO_DRAFTS, DraftLayout, IterationLayouts
from specguide.engine.levels.rates import LevelPlan, LevelRates
from specguide.engine.levels.trials import LevelTrials
from specguide.engine.observers import Committed
from specguide.request import Request

_LEAST_GAIN = 1.04  # for which another level runs


class AllDrafts:
    """No choice: every iteration drafts all that it may."""

    mixes = True
    """Whether the next decode iteration may compute chunks of prompts beside."""

    def choose(self, batch: Batch) -> Batch:
        """The batch as it is."""
        return batch

    def take(self, committed: Committed) -> None:
        """Learn nothing."""

    def forget(self, request: Request) -> None:
        """Nothing is known of any request."""


class LevelChoice(AllDrafts):
    """Chooses for all requests of a batch together; one thread calls it.

    It decides one iteration ahead: the level changes, and is timed, without prompts beside. So
    iterations with prompts verify and draft by one level, and need few graphs.

    layout: all that may be drafted
    mixes:  whether the next decode iteration may compute chunks of prompts beside
    """

    def __init__(self, layout: DraftLayout) -> None:
        self._layout = layout
        self.levels = layout.levels
        self._rates = LevelRates(level.num_drafts / 2 for level in self.levels)
        self._trials = LevelTrials(len(self.levels))
        self._best = self._drafted = self._wanted = self.levels.index(layout.first_level)
        self.mixes = False

    def plan(self, batch: Batch) -> LevelPlan | None:
        """The levels of a batch that is launched now; None for a prefill. Logits processors are not
        called along every layout."""
        if batch.is_prefill:
            return None
        if batch.processed and not self._layout.takes_processors:
            self._drafted = self._wanted = 0
            self.mixes = True
            return LevelPlan(0, 0)
        verified = self._fitting(self._drafted, batch)
        self._drafted = self._fitting(self._wanted, batch)
        self._wanted = self._next(batch)
        # what processors take is never timed, and prompts are not to wait for it
        is_known = self._rates.seconds(len(batch.slots), self._drafted) is not None
        is_steady = verified == self._drafted == self._wanted
        self.mixes = is_steady and (is_known or bool(batch.processed))
        return LevelPlan(verified, self._drafted)

    def choose(self, batch: Batch) -> Batch:
        """The batch with the levels that are planned for it; a prefill drafts the first level."""
        plan = self.plan(batch)
        if plan is None:
            levels = IterationLayouts(NO_DRAFTS, self._layout.first_level)
        else:
            levels = IterationLayouts(self.levels[plan.verified], self.levels[plan.drafted])
        return replace(batch, levels=levels)

    def take(self, committed: Committed) -> None:
        """The results of a batch with its levels, in order."""
        self._trials.earn(self._rates.take(committed, self._plan_of(committed.batch)))

    def forget(self, request: Request) -> None:
        """Forget a request that has ended."""
        self._rates.acceptances.forget(request.request_id)

    def _plan_of(self, batch: Batch) -> LevelPlan | None:
        if batch.is_prefill or batch.levels is None:
            return None
        return LevelPlan(*map(self.levels.index, batch.levels))

    def _fitting(self, level: int, batch: Batch) -> int:
        """The level, or the least with drafts where it was chosen for fewer requests."""
        return level if level < self._num_levels(batch) else 1

    def _num_levels(self, batch: Batch) -> int:
        """Number of levels that may run at the batch's size: that of the graph with room for its
        last slot."""
        return len(self._layout.levels_for(1 << max(batch.slots).bit_length()))

    def _next(self, batch: Batch) -> int:
        """The level to draft next: the best, or one to try."""
        self._trials.tick()
        rates = self._rates.of(batch, self._num_levels(batch))
        self._choose(rates)
        if self._best >= len(rates):
            self._best = 1
        best = self._best
        is_on_trial = self._drafted != best  # its drafts are yet to be verified
        if is_on_trial or rates[best] is None:
            return best
        for level in reversed(range(len(rates))):
            cost_s = self._cost_s(level, rates, len(batch.slots))
            if level != best and self._trials.begin(level, cost_s, is_above=level > best):
                return level
        return best

    def _choose(self, rates: Sequence[float | None]) -> None:
        known = [(rate, level) for level, rate in enumerate(rates) if rate is not None]
        if not known:
            return
        rate, level = max(known)
        now = rates[self._best] if self._best < len(rates) else None
        if level != self._best and (now is None or rate > _LEAST_GAIN * now):
            self._trials.pay_back(level)
            self._best = level

    def _cost_s(self, level: int, rates: Sequence[float | None], num_requests: int) -> float:
        """Seconds that a trial of the level is thought to lose; 0 where nobody knows."""
        rate, best_rate = rates[level], rates[self._best]
        seconds = self._rates.seconds(num_requests, level)
        if rate is None or best_rate is None or seconds is None:
            return 0.0
        return max(0.0, seconds * (1 - rate / best_rate))
