"""Owns the requests that wait, in the order in which they are entitled to run."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from specguide.request import Request

HEAD_START_S = 10.0
"""What one step of priority is worth: a request runs as if it had come so much earlier, seconds.

So of two requests that came within that time the one of higher priority runs first, and yet none
waits for ever: who comes late enough is behind it, whatever their priority.
"""

_MOST_STEPS = 10**6
"""Of priority, up or down; more count as so many. Greater numbers would drown the arrival."""


def entitlement(request: Request) -> tuple[float, int]:
    """Sorts requests: the least is the first to run, and the last to lose its pages."""
    num_steps = max(-_MOST_STEPS, min(request.priority, _MOST_STEPS))
    return request.arrival_s - HEAD_START_S * num_steps, request.request_id


class WaitingQueue:
    """A queue of any length whose operations take as good as no time."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, int], int, Request]] = []  # with some that wait no more
        self._num_pushed = 0
        self._requests: set[Request] = set()

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(sorted(self._requests, key=entitlement))

    def __contains__(self, request: Request) -> bool:
        return request in self._requests

    def push(self, request: Request) -> None:
        """Queue a request."""
        self._requests.add(request)
        self._num_pushed += 1
        heapq.heappush(self._heap, (entitlement(request), self._num_pushed, request))

    def first(self) -> Request | None:
        """Who is to run next."""
        while self._heap and self._heap[0][2] not in self._requests:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Request:
        """Take who is to run next; there must be one."""
        request = self.first()
        assert request is not None
        self.remove(request)
        return request

    def remove(self, request: Request) -> None:
        """Take a request that waits out of the queue."""
        self._requests.remove(request)

    def clear(self) -> None:
        """Take all out."""
        self._heap.clear()
        self._requests.clear()
