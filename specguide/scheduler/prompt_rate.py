"""Owns how many prompt tokens an iteration computes beside, so that iterations come to be alike."""

from __future__ import annotations

_WINDOW = 128
_DRAINED_IN = 64
"""Iterations. What waits and what is computed swing about the square root of their product long;
with these two the swing of requests that came at once dies within an answer."""


class PromptRate:
    """Follows what comes in: the mean of what the last iterations have computed, and a small part
    of what waits.

    A controller of the second order: what waits is drained in `_DRAINED_IN` iterations, and the
    mean follows in `_WINDOW`. So under a steady load little waits, and each iteration computes as
    much as comes in for it.
    """

    def __init__(self) -> None:
        self._mean = 0.0

    def tokens(self, num_waiting: float) -> float:
        """For the next iteration, where so many wait."""
        return self._mean + num_waiting / _DRAINED_IN

    def take(self, num_tokens: int) -> None:
        """What an iteration computes."""
        self._mean += (num_tokens - self._mean) / _WINDOW
