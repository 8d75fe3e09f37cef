"""Owns the requests of one client that wait.

They come in the order of their schedule key, but that of the first ones one is preferred whose keys
are mostly in the cache now, since they may be gone later.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator
from typing import NamedTuple

from specguide.scheduler.sequence import SequenceState

NUM_AT_HAND = 8
"""First requests of a client among which one whose keys are in the cache is preferred."""

MOST_PASSES = 4
"""Times that a client's first request is passed over."""

Entry = tuple[tuple[float, int], int, SequenceState]
"""Schedule key, a number of its own, and the request."""


class Load(NamedTuple):
    """What waits: requests, the tokens of their prompts and those that their output is expected to
    have."""

    num_requests: int = 0
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0

    def plus(self, sequence: SequenceState, times: int = 1) -> Load:
        """With one request more, or less."""
        return Load(
            self.num_requests + times,
            self.num_prompt_tokens + times * len(sequence.request.prompt_ids),
            self.num_output_tokens + times * sequence.num_expected,
        )


class ClientQueue:
    """The first few are in order; the rest are a heap, with some that wait no more."""

    def __init__(self) -> None:
        self._at_hand: list[Entry] = []
        self._rest: list[Entry] = []
        self._entries: dict[SequenceState, Entry] = {}
        self._num_pushed, self._num_passes = 0, 0
        self.load = Load()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._entries

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(self._entries)

    @property
    def head(self) -> SequenceState:
        """The first; there must be one."""
        return self._at_hand[0][-1]

    def push(self, sequence: SequenceState) -> None:
        """Queue a request."""
        self._num_pushed += 1
        self.load = self.load.plus(sequence)
        entry = sequence.schedule_key, self._num_pushed, sequence
        self._entries[sequence] = entry
        if len(self._at_hand) == NUM_AT_HAND and entry > self._at_hand[-1]:
            heapq.heappush(self._rest, entry)
            return
        insort(self._at_hand, entry)
        if len(self._at_hand) > NUM_AT_HAND:
            heapq.heappush(self._rest, self._at_hand.pop())

    def remove(self, sequence: SequenceState) -> None:
        """Take a request that waits out of the queue."""
        entry = self._entries.pop(sequence)
        self.load = self.load.plus(sequence, -1)
        if entry > self._at_hand[-1]:
            return
        self._num_passes = 0 if sequence is self.head else self._num_passes + 1
        self._at_hand.remove(entry)
        while self._rest and len(self._at_hand) < NUM_AT_HAND:
            entry = heapq.heappop(self._rest)
            if self._entries.get(entry[-1]) is entry:
                self._at_hand.append(entry)

    def choose(self, num_cached: Callable[[SequenceState], int]) -> SequenceState:
        """Who is to run next: the first, or one that is cached where that is not and has not been
        passed over too often."""
        if len(self._at_hand) == 1 or self._num_passes >= MOST_PASSES:
            return self.head
        for _, _, sequence in self._at_hand:
            is_cached = 2 * num_cached(sequence) >= sequence.num_tokens
            if is_cached and sequence.num_steps == self.head.num_steps:
                return sequence
        return self.head
