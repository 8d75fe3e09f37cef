"""Owns the requests that wait, in the order in which they are entitled to run."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter

from specguide.scheduler.sequence import SequenceState


class WaitingQueue:
    """A queue of any length whose operations take as good as no time."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, int], int, SequenceState]] = []
        """With some that wait no more."""
        self._num_pushed = 0
        self._sequences: set[SequenceState] = set()

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(sorted(self._sequences, key=attrgetter("schedule_key")))

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._sequences

    def push(self, sequence: SequenceState) -> None:
        """Queue a request."""
        self._sequences.add(sequence)
        self._num_pushed += 1
        heapq.heappush(self._heap, (sequence.schedule_key, self._num_pushed, sequence))

    def first(self) -> SequenceState | None:
        """Who is to run next."""
        while self._heap and self._heap[0][2] not in self._sequences:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def pop(self) -> SequenceState:
        """Take who is to run next; there must be one."""
        sequence = self.first()
        assert sequence is not None
        self.remove(sequence)
        return sequence

    def remove(self, sequence: SequenceState) -> None:
        """Take a request that waits out of the queue."""
        self._sequences.remove(sequence)

    def clear(self) -> None:
        """Take all out."""
        self._heap.clear()
        self._sequences.clear()
