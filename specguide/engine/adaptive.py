"""Owns how much an iteration drafts where that is chosen: by what was accepted, and by what it
takes.

A level is a part of all drafts that there may be, level 0 is none. Whichever gains most tokens a
second runs, and the others are tried now and then: one at a time, the less often the longer that
does not pay, and never for more than a small share of the time. So where nothing is ever accepted
it takes hardly longer than plain decoding. Where many slots run, the larger levels are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from specguide.batch import Batch
from specguide.draft_layout import NO_DRAFTS, DraftLayout, IterationLayouts
from specguide.engine.level_times import LevelTimes
from specguide.engine.observers import Committed
from specguide.request import Request

# of the latest iteration in an estimate, and the most that one has after a long time without any
_WEIGHT = 0.15
_MOST_WEIGHT = 0.6
_LEAST_PRIOR_WEIGHT = 0.05
_LEAST_GAIN = 1.04  # for which another level runs
_SHORTEST_PAUSE, _LONGEST_PAUSE = 8, 64  # between trials, iterations
_LONGEST_BELOW = 512  # of levels below the best
_TRIAL_SHARE = 0.008  # of the time


class LevelPlan(NamedTuple):
    """Of one iteration: the level whose drafts it verifies, and that of which it drafts."""

    verified: int
    drafted: int


class Acceptance:
    """How many drafts one request's iterations accept at each level, an estimate in which the
    latest count most."""

    def __init__(self, expected: Sequence[float]) -> None:
        self.expected = list(expected)
        self._num_iterations = 0
        self._last = [0] * len(self.expected)

    def take(self, level: int, num_accepted: int) -> None:
        """One more iteration that verified drafts of the level."""
        self._num_iterations += 1
        pause = self._num_iterations - self._last[level]
        self._last[level] = self._num_iterations
        weight = min(1 - (1 - _WEIGHT) ** pause, _MOST_WEIGHT)
        self.expected[level] += weight * (num_accepted - self.expected[level])


@dataclass
class _Prior:
    """Drafts that a level's iterations have accepted, of any request, an estimate; at first a guess
    counts as one."""

    expected: float
    num_seen: int = 1

    def take(self, num_accepted: int) -> None:
        self.num_seen += 1
        self.expected += max(_LEAST_PRIOR_WEIGHT, 1 / self.num_seen) * (
            num_accepted - self.expected
        )


@dataclass
class _Trials:
    """When a level that does not run is tried again."""

    pause: int = _SHORTEST_PAUSE
    not_before: int = _SHORTEST_PAUSE
    cost_s: float = 0.0  # of the last one


class AllDrafts:
    """No choice: every iteration drafts all that it may."""

    def choose(self, batch: Batch) -> Batch:
        """The batch as it is."""
        return batch

    def take(self, committed: Committed) -> None:
        """Learns nothing."""

    def forget(self, request: Request) -> None:
        """It knows nothing of any."""


class LevelChoice(AllDrafts):
    """Chooses for all requests of a batch together; one thread calls it.

    layout: all that may be drafted
    """

    def __init__(self, layout: DraftLayout) -> None:
        self._layout, self.levels = layout, layout.levels
        self._priors = [_Prior(level.num_drafts / 2) for level in self.levels]
        self._times = LevelTimes()
        self._best = self._drafted = self.levels.index(layout.first_level)
        self._trials = [_Trials() for _ in self.levels]
        self._num_planned, self._to_spend_s = 0, 0.0
        self._last: tuple[tuple[int, ...], float] | None = None
        self._acceptances: dict[int, Acceptance] = {}  # by request id
        self._begun_trial: tuple[LevelPlan, float] | None = None

    def plan(self, batch: Batch) -> LevelPlan | None:
        """For a batch that is launched now; None for a prefill. Logits processors are
        not called along every layout."""
        if batch.is_prefill:
            return None
        if batch.processed and not self._layout.takes_processors:
            self._drafted = 0
            return LevelPlan(0, 0)
        verified, self._drafted = self._drafted, self._next(batch)
        if verified >= self._num_levels(batch):  # there were fewer requests
            verified = 1
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
        batch, end_s = committed.batch, committed.times.end_s
        plan = self._plan_of(batch)
        is_timed = plan is not None and not batch.piggyback.chunks
        last, self._last = self._last, (batch.request_ids, end_s) if is_timed else None
        if plan is None:
            return
        num_tokens, first_rows = committed.output.num_tokens.tolist(), batch.first_rows
        for row, (request_id, num) in enumerate(zip(batch.request_ids, num_tokens, strict=True)):
            if num and row not in first_rows:
                self._learn(request_id, plan.verified, num - 1)
        if not (is_timed and last) or last[0] != batch.request_ids or batch.processed:
            self._begun_trial = None
        else:
            self._take_time(len(batch.request_ids), plan, end_s - last[1])

    def forget(self, request: Request) -> None:
        """It has ended."""
        self._acceptances.pop(request.request_id, None)

    def _learn(self, request_id: int, level: int, num_accepted: int) -> None:
        self._priors[level].take(num_accepted)
        if request_id in self._acceptances:  # it may have ended
            self._acceptances[request_id].take(level, num_accepted)

    def _plan_of(self, batch: Batch) -> LevelPlan | None:
        if batch.is_prefill or batch.levels is None:
            return None
        return LevelPlan(*map(self.levels.index, batch.levels))

    def _take_time(self, num_requests: int, plan: LevelPlan, seconds: float) -> None:
        """Of a level that runs; of one that is tried it takes two, one that drafts it and one that
        verifies it."""
        self._to_spend_s += _TRIAL_SHARE * seconds
        begun, self._begun_trial = self._begun_trial, None
        if plan.verified == plan.drafted:
            self._times.add(num_requests, plan.drafted, seconds)
        elif begun is None or begun[0] != (plan.drafted, plan.verified):
            self._begun_trial = plan, seconds
        else:
            other = self._times.seconds(num_requests, plan.drafted)
            if other is not None:
                tried = max(begun[1] + seconds - other, 0.1 * seconds)
                self._times.add(num_requests, plan.verified, tried, is_trial=True)

    def _next(self, batch: Batch) -> int:
        self._num_planned += 1
        rates = self._rates(batch)
        self._choose(rates)
        if self._best >= len(rates):
            self._best = 1
        if (
            self._drafted != self._best or rates[self._best] is None
        ):  # a trial's drafts are yet to be verified
            return self._best
        for level in reversed(range(len(rates))):
            trials, cost_s = self._trials[level], self._trial_cost_s(level, rates, len(batch.slots))
            if (
                level != self._best
                and self._num_planned >= trials.not_before
                and cost_s <= self._to_spend_s
            ):
                self._to_spend_s -= cost_s
                trials.cost_s, trials.not_before = cost_s, self._num_planned + trials.pause
                trials.pause = min(
                    2 * trials.pause, _LONGEST_PAUSE if level > self._best else _LONGEST_BELOW
                )
                return level
        return self._best

    def _rates(self, batch: Batch) -> list[float | None]:
        """Tokens that each level that may run gains a second; None where nobody knows."""
        num_requests = len(batch.slots)
        expected = [self._acceptance(request_id).expected for request_id in batch.request_ids]
        seconds = [
            self._times.seconds(num_requests, level) for level in range(self._num_levels(batch))
        ]
        return [
            None if s is None else (num_requests + sum(e[level] for e in expected)) / s
            for level, s in enumerate(seconds)
        ]

    def _num_levels(self, batch: Batch) -> int:
        """Of those that may run: as many slots as a graph has that reaches the last request's."""
        return len(self._layout.levels_for(1 << max(batch.slots).bit_length()))

    def _choose(self, rates: Sequence[float | None]) -> None:
        known = [(rate, level) for level, rate in enumerate(rates) if rate is not None]
        if not known:
            return
        rate, level = max(known)
        now = rates[self._best] if self._best < len(rates) else None
        if level != self._best and (now is None or rate > _LEAST_GAIN * now):
            self._to_spend_s += self._trials[level].cost_s  # it has paid
            self._best = level
            self._trials = [
                _Trials(not_before=self._num_planned + _SHORTEST_PAUSE) for _ in self.levels
            ]

    def _trial_cost_s(self, level: int, rates: Sequence[float | None], num_requests: int) -> float:
        """Seconds that a trial of the level is thought to lose; 0 where nobody knows."""
        rate, best_rate, seconds = (
            rates[level],
            rates[self._best],
            self._times.seconds(num_requests, level),
        )
        if rate is None or best_rate is None or seconds is None:
            return 0.0
        return max(0.0, seconds * (1 - rate / best_rate))

    def _acceptance(self, request_id: int) -> Acceptance:
        if request_id not in self._acceptances:
            self._acceptances[request_id] = Acceptance([prior.expected for prior in self._priors])
        return self._acceptances[request_id]
