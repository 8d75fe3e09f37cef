"""Owns when another level than the running one is tried: rarely, and for a small share of the
time."""

from __future__ import annotations

from dataclasses import dataclass

_SHORTEST_PAUSE, _LONGEST_PAUSE = 8, 64  # iterations between trials of a level
_LONGEST_BELOW = 512  # longest pause of levels below the best
_SHARE = 0.008  # share of the time that trials may lose


class LevelTrials:
    """Counts the iterations between trials of each level, and the seconds that trials may cost."""

    def __init__(self, num_levels: int) -> None:
        self._num_planned, self._to_spend_s = 0, 0.0
        self._levels = [_Level(_SHORTEST_PAUSE) for _ in range(num_levels)]

    def tick(self) -> None:
        """Count one more planned iteration."""
        self._num_planned += 1

    def earn(self, seconds: float) -> None:
        """Add the time of an iteration: a share of it may be spent on trials."""
        self._to_spend_s += _SHARE * seconds

    def begin(self, level: int, cost_s: float, *, is_above: bool) -> bool:
        """Whether to try the level now; if so, its cost is spent.

        cost_s:   seconds that the trial is expected to lose
        is_above: it drafts more than the best level
        """
        trials = self._levels[level]
        if self._num_planned < trials.not_before or cost_s > self._to_spend_s:
            return False
        self._to_spend_s -= cost_s
        trials.cost_s = cost_s
        trials.not_before = self._num_planned + trials.pause
        trials.pause = min(2 * trials.pause, _LONGEST_PAUSE if is_above else _LONGEST_BELOW)
        return True

    def pay_back(self, level: int) -> None:
        """Return the cost of a level's trial, since the level is now the best, and reset the pauses
        of all levels."""
        self._to_spend_s += self._levels[level].cost_s
        not_before = self._num_planned + _SHORTEST_PAUSE
        self._levels = [_Level(not_before) for _ in self._levels]


@dataclass
class _Level:
    """When a level may be tried again, in iterations."""

    not_before: int
    pause: int = _SHORTEST_PAUSE
    cost_s: float = 0.0  # cost of the last trial
