"""Owns the waiting requests of one client, in the order of their schedule keys."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from specguide.scheduler.sequence import SequenceState

Entry = tuple[tuple[float, int], int, SequenceState]
"""Schedule key, a unique number, and the request."""


class Load(NamedTuple):
    """The number of waiting requests, of their prompt tokens, and of their expected output
    tokens."""

    num_requests: int = 0
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0

    def plus(self, sequence: SequenceState, times: int = 1) -> Load:
        """The load with one request more, or with one less where `times` is -1."""
        return Load(
            self.num_requests + times,
            self.num_prompt_tokens + times * len(sequence.request.prompt_ids),
            self.num_output_tokens + times * sequence.num_expected,
        )


class ClientQueue:
    """A queue whose operations stay fast at any length.

    num_passes: times in a row that another client was preferred when this one was next
    """

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        """A heap; it may still contain requests that no longer wait."""
        self._entries: dict[SequenceState, Entry] = {}
        self._num_pushed, self.num_passes = 0, 0
        self.load = Load()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._entries

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(self._entries)

    def push(self, sequence: SequenceState) -> None:
        """Queue a request."""
        self.load = self.load.plus(sequence)
        self._num_pushed += 1
        entry = sequence.schedule_key, self._num_pushed, sequence
        self._entries[sequence] = entry
        heapq.heappush(self._heap, entry)

    def first(self) -> SequenceState:
        """The client's request that is to run next. There must be one."""
        while self._entries.get(self._heap[0][-1]) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][-1]

    def remove(self, sequence: SequenceState) -> None:
        """Remove a waiting request from the queue."""
        del self._entries[sequence]
        self.load = self.load.plus(sequence, -1)
