"""Owns when a level that does not run is tried: seldom, and for a small share of the time."""

from __future__ import annotations

from dataclasses import dataclass

_SHORTEST_PAUSE, _LONGEST_PAUSE = 8, 64  # between trials, iterations
_LONGEST_BELOW = 512  # of levels below the best
_SHARE = 0.008  # of the time


class LevelTrials:
    """Counts the iterations from one trial of a level to the next, and the seconds left for it."""

    def __init__(self, num_levels: int) -> None:
        self._num_planned, self._to_spend_s = 0, 0.0
        self._levels = [_Level(_SHORTEST_PAUSE) for _ in range(num_levels)]

    def tick(self) -> None:
        """One more iteration is planned."""
        self._num_planned += 1

    def earn(self, seconds: float) -> None:
        """Iterations took so long: a share of it may be spent."""
        self._to_spend_s += _SHARE * seconds

    def begin(self, level: int, cost_s: float, *, is_above: bool) -> bool:
        """Whether it is tried now.

        cost_s:   seconds that this is thought to lose
        is_above: it drafts more than the best
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
        """The level is the best now, so its trial has cost nothing, and all begin anew."""
        self._to_spend_s += self._levels[level].cost_s
        not_before = self._num_planned + _SHORTEST_PAUSE
        self._levels = [_Level(not_before) for _ in self._levels]


@dataclass
class _Level:
    """When it is tried again, iterations."""

    not_before: int
    pause: int = _SHORTEST_PAUSE
    cost_s: float = 0.0  # of the last trial
