"""Owns the waiting requests, and which of them is to run next.

Clients take turns by what they were served (see `fairness`), and each client has its own queue (see
`client_queue`). With one client, that queue decides alone. Among clients that are nearly equal, one
is preferred whose first request finds at least half of its keys in the cache now, since they may be
gone later. A client that was passed over a few times goes next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from specguide.scheduler.client_queue import ClientQueue, Load
from specguide.scheduler.fairness import ClientShares
from specguide.scheduler.sequence import SequenceState

HEAD_START_TOKENS = 20_000
"""What a step of priority is worth between clients: a request has its turn as if its client had
been served this many tokens less. It moves turns, not shares, since all that is served is still
charged in full."""

EQUAL_TOKENS = 1024
"""Tokens by which clients may differ and still count as equal."""

MOST_PASSES = 4
"""Most times in a row that a client is passed over when it is next."""

_MOST_COMPARED = 8
_MOST_MOVED = 64

Turn = tuple[float, tuple[float, int], int, str]
"""A client's turn: tokens, the schedule key of its first request, a unique number, its name."""


class WaitingQueue:
    """A queue whose operations stay fast at any length.

    shares:     how many tokens each client was served; each request must be open there before it is
                pushed
    num_cached: number of a request's first tokens whose keys are in the cache now
    """

    def __init__(self, shares: ClientShares, num_cached: Callable[[SequenceState], int]) -> None:
        self._shares, self._num_cached = shares, num_cached
        self._queues: dict[str, ClientQueue] = {}
        self._current: dict[str, Turn] = {}
        self._turns: list[Turn] = []  # a heap; it may contain outdated turns
        self._num_placed = 0
        self._load = Load()
        self._chosen: SequenceState | None = None

    def __len__(self) -> int:
        return self._load.num_requests

    def __iter__(self) -> Iterator[SequenceState]:
        return (sequence for queue in self._queues.values() for sequence in queue)

    def __contains__(self, sequence: SequenceState) -> bool:
        queue = self._queues.get(sequence.client)
        return queue is not None and sequence in queue

    def push(self, sequence: SequenceState) -> None:
        """Queue a request."""
        client = sequence.client
        if client not in self._queues:
            self._shares.begin_to_wait(client)
            self._queues[client] = ClientQueue()
        self._queues[client].push(sequence)
        self._load = self._load.plus(sequence)
        self.place(client)

    def first(self) -> SequenceState | None:
        """The request that is to run next."""
        if self._chosen is None and self._queues:
            self._chosen = self._choose()
        return self._chosen

    def pop(self) -> SequenceState:
        """Take the request that is to run next, and charge its client. There must be one."""
        sequence = self.first()
        assert sequence is not None
        num_to_compute = sequence.num_tokens - self._num_cached(sequence)
        self._shares.charge(sequence, num_to_compute, len(self._queues))
        self._next_queue().num_passes += 1
        self._queues[sequence.client].num_passes = 0
        self.remove(sequence)
        return sequence

    def remove(self, sequence: SequenceState) -> None:
        """Remove a waiting request from the queue."""
        client = sequence.client
        self._queues[client].remove(sequence)
        self._load = self._load.plus(sequence, -1)
        self.place(client)

    @property
    def num_clients(self) -> int:
        """Number of clients that have waiting requests."""
        return len(self._queues)

    def load(self, client: str | None = None) -> Load:
        """The waiting load of a client; None: of all clients. May be called from any thread."""
        if client is None:
            return self._load
        queue = self._queues.get(client)
        return Load() if queue is None else queue.load

    def place(self, client: str) -> None:
        """Update a client's turn, after its first request or what it was served has changed."""
        self._chosen = None
        queue = self._queues.get(client)
        if queue is None:
            return
        if not queue:
            del self._queues[client], self._current[client]
            return
        first = queue.first()
        tokens = self._shares.tag(client) - HEAD_START_TOKENS * first.num_steps
        self._num_placed += 1
        turn = tokens, first.schedule_key, self._num_placed, client
        self._current[client] = turn
        heapq.heappush(self._turns, turn)
        if len(self._turns) > _MOST_MOVED + 2 * len(self._queues):
            self._turns = list(self._current.values())
            heapq.heapify(self._turns)

    def _next_queue(self) -> ClientQueue:
        """The queue of the client whose turn it is. There must be one."""
        while self._turns[0] is not self._current.get(self._turns[0][-1]):
            heapq.heappop(self._turns)
        return self._queues[self._turns[0][-1]]

    def _choose(self) -> SequenceState:
        """The first request of the client whose turn it is, or of one that is preferred to it."""
        queue = self._next_queue()
        if len(self._queues) == 1 or queue.num_passes >= MOST_PASSES:
            return queue.first()
        equals = self._equals()
        firsts = [self._queues[turn[-1]].first() for turn in equals]
        return next(filter(self._is_cached, firsts), firsts[0])

    def _equals(self) -> list[Turn]:
        """The next turns that count as equal, at most a few."""
        equals: list[Turn] = []
        most_tokens = self._turns[0][0] + EQUAL_TOKENS
        while self._turns and self._turns[0][0] <= most_tokens and len(equals) < _MOST_COMPARED:
            turn = heapq.heappop(self._turns)
            if turn is self._current.get(turn[-1]):
                equals.append(turn)
        for turn in equals:
            heapq.heappush(self._turns, turn)
        return equals

    def _is_cached(self, sequence: SequenceState) -> bool:
        return 2 * self._num_cached(sequence) >= sequence.num_tokens
