"""Owns how many prompt tokens ride in an iteration so that the gap between tokens stays bounded."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

import numpy as np
import numpy.typing as npt

FEWEST_TOKENS = 64
"""Prompt tokens that an iteration always has room for, so that prompts never stand still."""

_WINDOW = 16
_NUM_LAST = 32
_REFIT_EVERY = 32
_HURRY = 8  # iterations that one counts for where it went as far as is trusted
_NUM_REWEIGHTS = 3
_RIDGE = 1e-6
_LEAST_S = 1e-6
"""Least time of an iteration, whatever is fitted."""

Floats = npt.NDArray[np.float64]
Taken = tuple[int, int, float]
"""Decode nodes and prompt tokens of an iteration, and its seconds."""


class StepBudget:
    """Estimates an iteration's time from the last ones, and what it may carry.

    The estimate is base + nodes · a + tokens · b, none of them negative, fitted so that outliers
    weigh little (Huber's weights). The last iterations of each size are kept, by the power of two
    of their prompt tokens, since a plane cannot be fitted to iterations that are all alike; its
    level is that of the last ones. It trusts itself up to twice the tokens that it has seen, so a
    wrong estimate is found out by small steps.

    max_tokens: most prompt tokens of an iteration, whatever it takes
    max_step_s: longest that an iteration is to take, seconds; infinite: there is no bound
    min_slowdown: how many times as long as without prompt tokens it may take, whatever the bound
    """

    def __init__(
        self, max_tokens: int, max_step_s: float = math.inf, min_slowdown: float = 0.0
    ) -> None:
        self._max_tokens, self._max_step_s = max_tokens, max_step_s
        self._min_slowdown = min_slowdown
        self._fewest = min(FEWEST_TOKENS, max_tokens)
        self._by_size: dict[int, deque[Taken]] = {}
        self._last: deque[Taken] = deque(maxlen=_NUM_LAST)
        self._num_since_fit = 0
        self._trusted = self._fewest
        self._base_s, self._per_node_s, self._per_token_s = 0.0, 0.0, 0.0

    def most_tokens(self, num_nodes: int) -> int:
        """Prompt tokens that may ride with so many decode nodes. With none of these nobody waits
        for a next token, and there is no bound but `max_tokens`."""
        if not num_nodes or self._max_step_s == math.inf:
            return self._max_tokens
        if self._num_since_fit >= _REFIT_EVERY:
            self._fit()
        usual_s = self._base_s + self._per_node_s * num_nodes
        left_s = max(self._max_step_s, self._min_slowdown * usual_s) - usual_s
        if left_s <= self._fewest * self._per_token_s:
            return self._fewest
        if left_s >= self._trusted * self._per_token_s:
            return self._trusted
        return int(left_s / self._per_token_s)

    def take(self, num_nodes: int, num_tokens: int, seconds: float) -> None:
        """What an iteration took, with its decode nodes and prompt tokens."""
        taken = num_nodes, num_tokens, seconds
        self._last.append(taken)
        size = num_tokens.bit_length()
        self._by_size.setdefault(size, deque(maxlen=_WINDOW)).append(taken)
        has_reached_trust = self._trusted <= num_tokens and self._trusted < self._max_tokens
        self._num_since_fit += _HURRY if has_reached_trust else 1

    def _fit(self) -> None:
        self._num_since_fit = 0
        taken = np.array([each for window in self._by_size.values() for each in window])
        largest_seen = int(taken[:, 1].max())
        self._trusted = min(self._max_tokens, max(self._fewest, 2 * largest_seen))
        costs = _robust_costs(*_causes(taken))
        causes, seconds = _causes(np.array(self._last))
        misses = seconds - causes @ costs
        level_s = median(misses.tolist())
        scatter_s = median(np.abs(misses - level_s).tolist())
        base_s, self._per_node_s, self._per_token_s = costs.tolist()
        slow_s = base_s + level_s + 2 * scatter_s  # it is the slow ones that are felt
        self._base_s = max(_LEAST_S, slow_s)


def _causes(taken: Floats) -> tuple[Floats, Floats]:
    """What times are made of, [N, 3], and the times, [N] seconds."""
    return np.insert(taken[:, :2], 0, 1.0, axis=1), taken[:, 2]


def _robust_costs(causes: Floats, seconds: Floats) -> Floats:
    """Seconds of each cause, such that outliers weigh little."""
    scales = np.maximum(causes.max(axis=0), 1.0)
    causes = causes / scales
    weights = np.ones(len(seconds))
    for _ in range(_NUM_REWEIGHTS):
        costs = _not_negative_costs(causes, seconds, weights)
        misses = np.abs(seconds - causes @ costs)
        usual_miss = median(misses.tolist()) + 1e-9
        weights = usual_miss / np.maximum(misses, usual_miss)
    return costs / scales


def _not_negative_costs(causes: Floats, seconds: Floats, weights: Floats) -> Floats:
    """Weighted least squares, seconds of each cause; a cause that would save time costs nothing."""
    costs = np.zeros(causes.shape[1])
    kept = list(range(causes.shape[1]))
    while kept:
        weighted = causes[:, kept] * weights[:, None]
        products = weighted.T @ causes[:, kept] + _RIDGE * weights.sum() * np.eye(len(kept))
        found = np.linalg.solve(products, weighted.T @ seconds)
        if found.min() >= 0:
            costs[kept] = found
            break
        del kept[int(found.argmin())]
    return costs
