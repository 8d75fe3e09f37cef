"""Owns the rate of each level: the tokens a second that its iterations gain, as measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from specguide.batch import Batch
from specguide.engine.levels.acceptances import Acceptances
from specguide.engine.levels.times import LevelTimes
from specguide.engine.observers import Committed


class LevelPlan(NamedTuple):
    """The levels of one iteration: the one whose drafts it verifies, and the one that it drafts."""

    verified: int
    drafted: int


class LevelRates:
    """The tokens that iterations gain, divided by their times.

    guesses: accepted drafts of each level, before anything is known
    """

    def __init__(self, guesses: Iterable[float]) -> None:
        self.acceptances = Acceptances(guesses)
        self._times = LevelTimes()
        self._last_ids: tuple[int, ...] = ()
        """The requests of the last iteration, if it decoded."""
        self._last_end_s = 0.0
        self._begun_trial: tuple[LevelPlan, float] | None = None

    def of(self, batch: Batch, num_levels: int) -> list[float | None]:
        """Tokens a second that each of the first `num_levels` levels would gain with the batch;
        None where that is unknown."""
        num_requests = len(batch.slots)
        expected = [self.acceptances.expected(request_id) for request_id in batch.request_ids]
        seconds = [self.seconds(num_requests, level) for level in range(num_levels)]
        return [
            None if s is None else (num_requests + sum(e[level] for e in expected)) / s
            for level, s in enumerate(seconds)
        ]

    def seconds(self, num_requests: int, level: int) -> float | None:
        """Seconds that an iteration of the level takes; None where that is unknown."""
        return self._times.seconds(num_requests, level)

    def take(self, committed: Committed, plan: LevelPlan | None) -> float:
        """Learn from an iteration. Returns the seconds that it took; 0 where that is unknown.

        plan: its levels; None for a prefill
        """
        batch, end_s = committed.batch, committed.times.end_s
        seconds = end_s - self._last_end_s
        ran_on = not self._is_cut_off(batch)
        self._last_ids = () if plan is None else batch.request_ids
        self._last_end_s = end_s
        if plan is None:
            return 0.0
        self._take_accepted(committed, plan.verified)
        if ran_on and not batch.piggyback.chunks:
            self._take_time(len(batch.request_ids), plan, seconds)
        else:
            self._begun_trial = None
        return seconds if ran_on else 0.0

    def _is_cut_off(self, batch: Batch) -> bool:
        """Whether its time cannot be measured, because it does not follow the last iteration
        directly: none of its requests ran in that one, or logits processors ran on the host."""
        return bool(batch.processed) or set(batch.request_ids).isdisjoint(self._last_ids)

    def _take_accepted(self, committed: Committed, level: int) -> None:
        rows = zip(
            committed.batch.request_ids,
            committed.output.num_tokens.tolist(),
            committed.advances,
            strict=True,
        )
        for request_id, num_tokens, advance in rows:
            if advance.tokens and not advance.is_first:
                self.acceptances.take(request_id, level, num_tokens - 1)

    def _take_time(self, num_requests: int, plan: LevelPlan, seconds: float) -> None:
        """Take the time of an iteration. The trial of a level takes two iterations: one drafts the
        level, and the next verifies its drafts."""
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
