"""Owns the choice of how much an iteration drafts, from measured acceptances and times.

A level is a part of the draft layout; level 0 drafts nothing. The level that gains most tokens a
second runs. The others are tried now and then: one at a time, more rarely the longer it has not
paid, and never for more than a small share of the time. So if no draft is ever accepted, decoding
takes hardly longer than without speculation. Where many slots run, the larger levels are left out.
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

_LEAST_GAIN = 1.04  # another level runs only if its rate is better by this factor


class AllDrafts:
    """The null object without adaptive drafting: every iteration drafts the whole layout."""

    mixes = True
    """Whether the next decode iteration may carry chunks of prompts."""

    def choose(self, batch: Batch) -> Batch:
        """The batch unchanged."""
        return batch

    def take(self, committed: Committed) -> None:
        """Does nothing."""

    def forget(self, request: Request) -> None:
        """Does nothing."""


class LevelChoice(AllDrafts):
    """Chooses one level for all requests of a batch. One thread calls it.

    It decides one iteration ahead, so that the level changes, and is timed, only in iterations
    without prompts. Mixed iterations then verify and draft the same level, and need few graphs.

    layout: the whole draft layout
    mixes:  whether the next decode iteration may carry chunks of prompts
    """

    def __init__(self, layout: DraftLayout) -> None:
        self._layout = layout
        self.levels = layout.levels
        self._rates = LevelRates(level.num_drafts / 2 for level in self.levels)
        self._trials = LevelTrials(len(self.levels))
        self._best = self._drafted = self._wanted = self.levels.index(layout.first_level)
        self.mixes = False

    def plan(self, batch: Batch) -> LevelPlan | None:
        """The levels of the batch that is launched next; None for a prefill. A batch with logits
        processors drafts nothing where the layout does not support them."""
        if batch.is_prefill:
            return None
        if batch.processed and not self._layout.takes_processors:
            self._drafted = self._wanted = 0
            self.mixes = True
            return LevelPlan(0, 0)
        verified = self._fitting(self._drafted, batch)
        self._drafted = self._fitting(self._wanted, batch)
        self._wanted = self._next(batch)
        # iterations with processors are never timed, so prompts must not wait for a time
        is_known = self._rates.seconds(len(batch.slots), self._drafted) is not None
        is_steady = verified == self._drafted == self._wanted
        self.mixes = is_steady and (is_known or bool(batch.processed))
        return LevelPlan(verified, self._drafted)

    def choose(self, batch: Batch) -> Batch:
        """The batch with its levels; a prefill drafts `first_level`."""
        plan = self.plan(batch)
        if plan is None:
            levels = IterationLayouts(NO_DRAFTS, self._layout.first_level)
        else:
            levels = IterationLayouts(self.levels[plan.verified], self.levels[plan.drafted])
        return replace(batch, levels=levels)

    def take(self, committed: Committed) -> None:
        """Learn from the results of a batch. Batches come in order."""
        self._trials.earn(self._rates.take(committed, self._plan_of(committed.batch)))

    def forget(self, request: Request) -> None:
        """Forget a request that has ended."""
        self._rates.acceptances.forget(request.request_id)

    def _plan_of(self, batch: Batch) -> LevelPlan | None:
        if batch.is_prefill or batch.levels is None:
            return None
        return LevelPlan(*map(self.levels.index, batch.levels))

    def _fitting(self, level: int, batch: Batch) -> int:
        """The level, or level 1 where it was chosen for fewer requests and is too large now."""
        return level if level < self._num_levels(batch) else 1

    def _num_levels(self, batch: Batch) -> int:
        """Number of levels that may run for the batch, by the size of its graph."""
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
        """Seconds that a trial of the level is expected to lose; 0 where that is unknown."""
        rate, best_rate = rates[level], rates[self._best]
        seconds = self._rates.seconds(num_requests, level)
        if rate is None or best_rate is None or seconds is None:
            return 0.0
        return max(0.0, seconds * (1 - rate / best_rate))
