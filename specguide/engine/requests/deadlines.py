"""Owns the deadlines of requests under way."""

from __future__ import annotations

import math
import time

from specguide.request import Request


class Deadlines:
    """The times at which requests with a `timeout_s` must have ended, in seconds of
    `time.perf_counter`."""

    def __init__(self) -> None:
        self._at_s: dict[Request, float] = {}
        self._next_s = math.inf  # the earliest deadline, or before it

    def add(self, request: Request) -> None:
        """Watch a request, if it has a deadline."""
        if request.params.timeout_s is not None:
            self._at_s[request] = at_s = request.arrival_s + request.params.timeout_s
            self._next_s = min(self._next_s, at_s)

    def discard(self, request: Request) -> None:
        """Forget the deadline of a request that has ended."""
        self._at_s.pop(request, None)

    def take_expired(self) -> list[Request]:
        """Take the requests whose time is up; they are no longer watched."""
        now_s = time.perf_counter()
        if now_s < self._next_s:
            return []
        expired = [request for request, at_s in self._at_s.items() if at_s <= now_s]
        for request in expired:
            del self._at_s[request]
        self._next_s = min(self._at_s.values(), default=math.inf)
        return expired

    def wait_s(self) -> float:
        """Seconds until the next deadline, or less; infinite where there is none."""
        return max(0.0, self._next_s - time.perf_counter()) if self._at_s else math.inf
