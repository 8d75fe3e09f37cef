"""Owns how fast prompts have to be computed so that as many requests begin as end."""

from __future__ import annotations

import math

from specguide.request import Request

_FADE = 0.998
"""What an iteration counts for where one more has followed."""


class Inflow:
    """Prompt tokens that a request brings for each iteration in which it decodes, the mean of the
    last iterations.

    Of N requests that decode, each for I iterations, N / I end in an iteration, and where others
    follow at once these bring N / I · P prompt tokens. With fewer an iteration slots stand empty
    while requests wait for their first token; with more the prompts that wait are used up, after
    which iterations without any follow, whose rows are too few to pay for reading the weights.

    1 / I is estimated by the requests that have ended for all iterations that any request was in.
    Requests that run on count there too: of some that began together the short ones end first.
    """

    def __init__(self) -> None:
        self._num_tokens, self._num_iterations = 0.0, 0.0

    def take(self, num_decoding: int) -> None:
        """An iteration, with the requests that decode in it."""
        self._num_tokens *= _FADE
        self._num_iterations = _FADE * self._num_iterations + num_decoding

    def end(self, request: Request) -> None:
        """A request has ended; one that never ran counts for nothing."""
        if request.output_ids:
            self._num_tokens += len(request.prompt_ids) - request.metrics.num_cached

    def tokens(self, num_requests: int) -> int:
        """Prompt tokens of an iteration that keep so many requests going; 0 before any has run."""
        if not self._num_iterations:
            return 0
        return math.ceil(num_requests * self._num_tokens / self._num_iterations)
