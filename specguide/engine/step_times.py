"""Owns how long iterations take, as the scheduler is told it."""

from __future__ import annotations

from specguide.engine.observers import Committed
from specguide.scheduler import Scheduler


class StepTimes:
    """Tells the scheduler what each iteration took: the time since the one before had ended or,
    where the engine had nothing to do, since its own launch."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._last_end_s = 0.0

    def take(self, committed: Committed) -> None:
        """Take the time of one more iteration."""
        times = committed.times
        seconds = times.end_s - max(times.begin_s, self._last_end_s)
        self._last_end_s = times.end_s
        self._scheduler.take_time(committed.batch, committed.advances, seconds)
