"""Owns how many prompt tokens an iteration computes beside, so that iterations come to be alike."""

from __future__ import annotations

import math

_WINDOW = 128
"""Iterations."""
_HURRY = 128.0
"""Tokens. Twice what an iteration takes without any request (4.3 ms), for each token of a prompt
(of some 500), over how much longer each further token makes the time of the next one that rides (20
to 60 ns, of an 8B model on an H200) would be 256 and more. But what rides is filled up to tiles of
the products, and with half of that simulated loops give as many tokens a second or more. Other
models differ by less than it would take to matter, since both times follow from the model's size,
and the root of it counts."""


class PromptRate:
    """Follows what comes in: the mean of what the last iterations have computed, and more the more
    wait.

    A request that waits leaves its share of an iteration unused. Where that is in proportion to
    what waits, and what an iteration computes beyond the mean costs in proportion to its square,
    the cheapest excess is in proportion to the square root of what waits. So a crowd that comes at
    once is computed fast, and under a steady load each iteration computes as much as comes in for
    it.
    """

    def __init__(self) -> None:
        self._mean = 0.0

    def tokens(self, num_waiting: float, num_decoding: int) -> float:
        """Prompt tokens for the next iteration, where so many wait and so many requests decode, at
        least one."""
        return self._mean + math.sqrt(_HURRY * num_waiting / num_decoding)

    def take(self, num_tokens: int) -> None:
        """Take what an iteration computes."""
        self._mean += (num_tokens - self._mean) / _WINDOW
