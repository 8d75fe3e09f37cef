"""Owns the requests that wait, and which of them is to run next.

Clients take turns by what they were served (see `fairness`), and each one's requests are in a queue
of his own (see `client_queue`). With one client that queue is all there is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from specguide.scheduler.client_queue import ClientQueue
from specguide.scheduler.fairness import Account, ClientShares
from specguide.scheduler.sequence import SequenceState

HEAD_START_TOKENS = 20_000
"""What a step of priority is worth between clients: a request has its turn as if its client had
been served so much less. It moves turns and not shares, as what is served is charged in full."""

_MOST_MOVED = 64

Turn = tuple[float, tuple[float, int], int, Account]
"""When a client is next: in tokens, then by its first request; a number of its own."""


class WaitingQueue:
    """A queue of any length whose operations take as good as no time.

    shares:     what the clients were served; each request that is pushed is open there
    num_cached: tokens of a request's beginning whose keys are there now
    """

    def __init__(self, shares: ClientShares, num_cached: Callable[[SequenceState], int]) -> None:
        self._shares, self._num_cached = shares, num_cached
        self._queues: dict[Account, ClientQueue] = {}
        self._current: dict[Account, Turn] = {}
        self._turns: list[Turn] = []  # a heap, with some that have moved since
        self._num_placed, self._num_waiting = 0, 0
        self._chosen: SequenceState | None = None

    def __len__(self) -> int:
        return self._num_waiting

    def __iter__(self) -> Iterator[SequenceState]:
        return (sequence for queue in self._queues.values() for sequence in queue)

    def __contains__(self, sequence: SequenceState) -> bool:
        queue = self._queues.get(self._shares.account(sequence))
        return queue is not None and sequence in queue

    def push(self, sequence: SequenceState) -> None:
        """Queue a request."""
        account = self._shares.account(sequence)
        if account not in self._queues:
            self._shares.begin_to_wait(account)
            self._queues[account] = ClientQueue()
        self._queues[account].push(sequence)
        self._num_waiting += 1
        self.place(account)

    def first(self) -> SequenceState | None:
        """Who is to run next."""
        if self._chosen is None and self._num_waiting:
            while self._turns[0] is not self._current.get(self._turns[0][-1]):
                heapq.heappop(self._turns)
            self._chosen = self._queues[self._turns[0][-1]].choose(self._num_cached)
        return self._chosen

    def pop(self) -> SequenceState:
        """Take who is to run next, at its client's charge; there must be one."""
        sequence = self.first()
        assert sequence is not None
        num_to_compute = sequence.num_tokens - self._num_cached(sequence)
        self._shares.charge(sequence, num_to_compute, len(self._queues))
        self.remove(sequence)
        return sequence

    def remove(self, sequence: SequenceState) -> None:
        """Take a request that waits out of the queue."""
        account = self._shares.account(sequence)
        self._queues[account].remove(sequence)
        self._num_waiting -= 1
        self.place(account)

    def place(self, account: Account) -> None:
        """A client's first request or what it was served has changed: so may its turn."""
        self._chosen = None
        queue = self._queues.get(account)
        if queue is None:
            return
        if not queue:
            del self._queues[account], self._current[account]
            return
        head_start = HEAD_START_TOKENS * queue.head.num_steps
        self._num_placed += 1
        turn = account.tag - head_start, queue.head.schedule_key, self._num_placed, account
        self._current[account] = turn
        heapq.heappush(self._turns, turn)
        if len(self._turns) > _MOST_MOVED + 2 * len(self._queues):
            self._turns = list(self._current.values())
            heapq.heapify(self._turns)
