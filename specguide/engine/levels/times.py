"""Owns the times of iterations, by level and number of requests."""

from __future__ import annotations

from collections import deque
from statistics import median_low

_NUM_KEPT = 9
_NUM_ENOUGH = 2  # a single one may include the capture of its graph


class LevelTimes:
    """Median times of the last few iterations of each level, separately for each power of two of
    requests.

    Contexts grow and clock rates change, and only the running level is measured all the time. So
    when its median changes, the medians of the other levels are scaled by the same factor.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], deque[float]] = {}
        self._medians: dict[tuple[int, int], float] = {}
        self._running: tuple[int, int] | None = None
        self._num_running = 0

    def add(self, num_requests: int, level: int, seconds: float, *, is_trial: bool = False) -> None:
        """Add the time of an iteration that verified and drafted the level. is_trial: it ran
        between iterations of another level"""
        key = _size(num_requests), level
        kept, before = self._kept.setdefault(key, deque(maxlen=_NUM_KEPT)), self._medians.get(key)
        kept.append(seconds)
        if len(kept) >= _NUM_ENOUGH:
            self._medians[key] = median_low(kept)
        if is_trial:
            return
        self._num_running = self._num_running + 1 if key == self._running else 1
        self._running = key
        all_kept_ran_in_turn = self._num_running > _NUM_KEPT
        if before is not None and all_kept_ran_in_turn:
            self._scale_others(key, self._medians[key] / before)

    def seconds(self, num_requests: int, level: int) -> float | None:
        """Seconds that an iteration of the level takes; None where that is unknown.

        If it is known only for other numbers of requests, it is estimated from the nearest one,
        scaled by the ratio that another level has between the two.
        """
        size = _size(num_requests)
        known = self._medians.get((size, level))
        if known is not None:
            return known
        sizes = [other for other, its_level in self._medians if its_level == level]
        if not sizes:
            return None
        nearest = min(sizes, key=lambda other: abs(other - size))
        ratios = [
            seconds / self._medians[nearest, its_level]
            for (other, its_level), seconds in self._medians.items()
            if other == size and (nearest, its_level) in self._medians
        ]
        return self._medians[nearest, level] * (ratios[0] if ratios else 1.0)

    def _scale_others(self, key: tuple[int, int], factor: float) -> None:
        for other in self._medians:
            if other[0] == key[0] and other != key:
                self._medians[other] *= factor
                self._kept[other] = deque(
                    (seconds * factor for seconds in self._kept[other]), maxlen=_NUM_KEPT
                )


def _size(num_requests: int) -> int:
    return (num_requests - 1).bit_length()
