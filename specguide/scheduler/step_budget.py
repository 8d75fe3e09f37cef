"""Owns how many prompt tokens an iteration may carry, such that the gap between tokens stays
bounded."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

import numpy as np
import numpy.typing as npt

FEWEST_TOKENS = 64
"""Prompt tokens that an iteration may always carry, so that prompts never stand still."""

_WINDOW = 16
_NUM_LAST = 32
_REFIT_EVERY = 32
_HURRY = 8  # an iteration counts for this many where it reached the trusted number of tokens
_NUM_REWEIGHTS = 3
_RIDGE = 1e-6
_LEAST_S = 1e-6
"""Least time of an iteration, whatever the fit says."""

Floats = npt.NDArray[np.float64]
Taken = tuple[int, int, float]
"""Decode nodes and prompt tokens of an iteration, and its seconds."""


class StepBudget:
    """Estimates an iteration's time from earlier ones, and how many prompt tokens it may carry.

    The estimate is base + nodes · a + tokens · b with no negative term, fitted so that outliers
    have little weight (Huber's weights). A plane cannot be fitted to iterations that are all alike,
    so the last iterations of each size are kept, where a size is a power of two of prompt tokens.
    The base then follows the last iterations of any size. The estimate is trusted up to twice the
    tokens that were ever seen, so that a wrong estimate is found out in small steps.

    max_tokens: most prompt tokens of an iteration, however long it takes
    max_step_s: longest that an iteration is to take, seconds; infinite: there is no bound
    min_slowdown: how many times as long as without prompt tokens an iteration may take, whatever
                  max_step_s says
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
        """Most prompt tokens beside this many decode nodes. Without decode nodes nobody waits for a
        next token, and only `max_tokens` bounds them."""
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
        """Take the decode nodes, prompt tokens and time of an iteration."""
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
        slow_s = base_s + level_s + 2 * scatter_s  # users notice the slow iterations
        self._base_s = max(_LEAST_S, slow_s)


def _causes(taken: Floats) -> tuple[Floats, Floats]:
    """The causes of the times, [N, 3]: 1, decode nodes and prompt tokens; and the times, [N]
    seconds."""
    return np.insert(taken[:, :2], 0, 1.0, axis=1), taken[:, 2]


def _robust_costs(causes: Floats, seconds: Floats) -> Floats:
    """Seconds per unit of each cause, fitted so that outliers have little weight."""
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
    """Seconds per unit of each cause, by weighted least squares; a cause with a negative cost is
    set to 0."""
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
