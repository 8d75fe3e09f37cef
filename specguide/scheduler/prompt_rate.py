"""Owns how many prompt tokens an iteration computes beside, so that iterations come to be alike."""

from __future__ import annotations

import math

_WINDOW = 128
"""Iterations."""
_HURRY = 4.0
"""Tokens. Twice what a token that waits costs in an iteration, over how much dearer each further
token makes the next one that rides: 0.13 and 0.02 to 0.06 µs for an 8B model on an H200."""


class PromptRate:
    """Follows what comes in: the mean of what the last iterations have computed, and more the more
    wait.

    Where what waits costs in proportion to it, and what an iteration computes beyond the mean costs
    in proportion to its square, the cheapest excess is in proportion to the square root of what
    waits. So a crowd that comes at once is computed fast, and under a steady load each iteration
    computes as much as comes in for it.
    """

    def __init__(self) -> None:
        self._mean = 0.0

    def tokens(self, num_waiting: float) -> float:
        """For the next iteration, where so many wait."""
        return self._mean + math.sqrt(_HURRY * num_waiting)

    def take(self, num_tokens: int) -> None:
        """What an iteration computes."""
        self._mean += (num_tokens - self._mean) / _WINDOW
