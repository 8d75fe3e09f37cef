"""Owns the rate at which decode iterations compute prompts, such that all take about equally
long."""

from __future__ import annotations

import math

_WINDOW = 128
"""Iterations over which the mean is taken."""
_HURRY = 128.0
"""Weight of the waiting tokens, in tokens. The model below gives 256 and more for an 8B model on an
H200: twice the time of an iteration without requests (4.3 ms), per token of a prompt (some 500),
divided by how much each further token slows the next one (20 to 60 ns). But chunks are padded to
tiles of the matrix products, and with half the value simulated loops give as many tokens a second,
or more. Other models hardly differ: both times grow with the model's size, and only the square root
counts."""


class PromptRate:
    """Chooses the prompt tokens of an iteration: the mean of the last iterations, plus an excess
    that grows with the number of waiting tokens.

    A waiting request leaves its share of an iteration unused. Assume that this loss is proportional
    to the waiting tokens, and that an excess over the mean costs its square. Then the cheapest
    excess is proportional to the square root of the waiting tokens. So a burst of prompts is
    computed fast, and under a steady load each iteration computes as much as arrives.
    """

    def __init__(self) -> None:
        self._mean = 0.0

    def tokens(self, num_waiting: float, num_decoding: int) -> float:
        """Prompt tokens for the next iteration.

        num_waiting:  prompt tokens that wait
        num_decoding: requests that decode, at least one
        """
        return self._mean + math.sqrt(_HURRY * num_waiting / num_decoding)

    def take(self, num_tokens: int) -> None:
        """Take the number of prompt tokens that an iteration computes."""
        self._mean += (num_tokens - self._mean) / _WINDOW
