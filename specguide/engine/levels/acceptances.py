"""Owns estimates of how many drafts are accepted, for each request and level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WEIGHT = 0.15  # weight of the latest iteration in a request's estimate
_MOST_WEIGHT = 0.6  # its weight after a long time without iterations of that level
_LEAST_PRIOR_WEIGHT = 0.05  # weight of the latest iteration in the estimate over all requests


class Acceptances:
    """Estimates how many drafts an iteration accepts. A new request begins with the estimate over
    all requests.

    guesses: accepted drafts of each level, before anything is known
    """

    def __init__(self, guesses: Iterable[float]) -> None:
        self._priors = [_Prior(guess) for guess in guesses]
        self._of_requests: dict[int, _Acceptance] = {}  # by request id

    def __len__(self) -> int:
        """Number of requests that have estimates."""
        return len(self._of_requests)

    def expected(self, request_id: int) -> Sequence[float]:
        """Drafts that the request's next iteration is expected to accept, by level."""
        if request_id not in self._of_requests:
            priors = [prior.expected for prior in self._priors]
            self._of_requests[request_id] = _Acceptance(priors)
        return self._of_requests[request_id].expected

    def take(self, request_id: int, level: int, num_accepted: int) -> None:
        """Take one more iteration of a request, in which drafts of `level` were verified."""
        self._priors[level].take(num_accepted)
        if request_id in self._of_requests:  # it may have ended
            self._of_requests[request_id].take(level, num_accepted)

    def forget(self, request_id: int) -> None:
        """Forget a request that has ended."""
        self._of_requests.pop(request_id, None)


class _Acceptance:
    """One request's estimates; the latest iterations count most."""

    def __init__(self, expected: list[float]) -> None:
        self.expected = expected
        self._num_iterations = 0
        self._last = [0] * len(expected)  # the last iteration of each level

    def take(self, level: int, num_accepted: int) -> None:
        self._num_iterations += 1
        pause = self._num_iterations - self._last[level]
        self._last[level] = self._num_iterations
        weight = min(1 - (1 - _WEIGHT) ** pause, _MOST_WEIGHT)
        self.expected[level] += weight * (num_accepted - self.expected[level])


@dataclass
class _Prior:
    """The estimate of a level over all requests. It begins with a guess that counts as one
    iteration."""

    expected: float
    num_seen: int = 1

    def take(self, num_accepted: int) -> None:
        self.num_seen += 1
        weight = max(_LEAST_PRIOR_WEIGHT, 1 / self.num_seen)
        self.expected += weight * (num_accepted - self.expected)
