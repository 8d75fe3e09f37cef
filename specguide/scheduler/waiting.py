"""Owns the requests that wait, in the order in which they are entitled to run."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from specguide.request import Request

HEAD_START_S = 10.0
"""What one step of priority is worth: a request runs as if it had come so much earlier, seconds.

So of two requests that came within that time the one of higher priority runs first, and yet none waits for ever: who
comes late enough is behind it, whatever their priority.
"""


def entitlement(request: Request) -> tuple[float, int]:
    """Sorts requests: the least is the first to run, and the last to lose its pages."""
    return request.arrival_s - HEAD_START_S * request.priority, request.request_id


class WaitingQueue:
    """A queue of any length whose operations take as good as no time."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, int], Request]] = []
        self._removed: set[Request] = set()

    def __len__(self) -> int:
        return len(self._heap) - len(self._removed)

    def __iter__(self) -> Iterator[Request]:
        return (request for _, request in self._heap if request not in self._removed)

    def push(self, request: Request) -> None:
        """Queue a request that does not wait."""
        if request in self._removed:  # its old place is as good as a new one
            self._removed.remove(request)
        else:
            heapq.heappush(self._heap, (entitlement(request), request))

    def first(self) -> Request | None:
        """Who is to run next."""
        while self._heap and self._heap[0][1] in self._removed:
            self._removed.remove(heapq.heappop(self._heap)[1])
        return self._heap[0][1] if self._heap else None

    def pop(self) -> Request:
        """Take who is to run next; there must be one."""
        request = self.first()
        assert request is not None
        heapq.heappop(self._heap)
        return request

    def remove(self, request: Request) -> None:
        """Take a request that waits out of the queue."""
        self._removed.add(request)

    def clear(self) -> None:
        """Take all out."""
        self._heap.clear()
        self._removed.clear()
