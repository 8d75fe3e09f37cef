"""Owns the accounts of clients: how many tokens each has been served, which decides who is next.

Clients share by self-clocked fair queueing, which is deficit round robin without its rounds. Each
client has a tag, in tokens: it grows by what the client is served, and the client with the least
tag is next. A client that begins to wait starts at least at the clock, so that nobody saves up
share while idle. With each request that is served, the clock advances by its cost divided by the
number of waiting clients, and it stays between the old and the new tag of that request's client.
So a newcomer waits little, and a stream of newcomers keeps nobody from a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from specguide.scheduler.sequence import SequenceState

_FIRST_GUESS = 128.0
"""Expected output tokens of a request, before any request has ended."""

_NEWS_WEIGHT = 0.1
"""Weight of the latest output's length in the moving mean."""

_MOST_IDLE = 1024


@dataclass(eq=False)
class Account:
    """A client's account.

    mean_output:  expected output tokens of one of its requests
    tag:          tokens that it was served, see above
    num_requests: its requests that wait or run
    """

    mean_output: float
    tag: float = 0.0
    num_requests: int = 0


class ClientShares:
    """Charges clients for what their requests cost. When a request gets its slot, that is the
    prompt tokens to compute and the expected output; when it ends, the difference to its actual
    output."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._clock = 0.0
        self._mean_output = _FIRST_GUESS
        self._num_requests = 0

    def open(self, sequence: SequenceState) -> None:
        """Open a new request. Sets the output tokens that are expected of it."""
        if sequence.client not in self._accounts:
            self._accounts[sequence.client] = Account(self._mean_output)
        account = self._accounts[sequence.client]
        account.num_requests += 1
        self._num_requests += 1
        most = sequence.max_len - len(sequence.request.prompt_ids)
        sequence.num_expected = min(most, round(account.mean_output))

    def tag(self, client: str) -> float:
        """The tag of a client that has open requests."""
        return self._accounts[client].tag

    def begin_to_wait(self, client: str) -> None:
        """Begin to queue for a client that had no waiting requests: its tag is at least the
        clock."""
        account = self._accounts[client]
        account.tag = max(account.tag, self._clock)

    def charge(self, sequence: SequenceState, num_to_compute: int, num_clients: int) -> None:
        """Charge the client of a request that gets a slot, but only once: what the request computes
        again after it has lost its slot is not the client's fault.

        num_to_compute: its tokens whose keys are not in the cache
        num_clients:    number of clients that wait, its own included
        """
        if sequence.is_charged:
            return
        sequence.is_charged = True
        account = self._accounts[sequence.client]
        cost = num_to_compute + sequence.num_expected
        ahead = max(self._clock, account.tag) + cost / num_clients
        account.tag += cost
        self._clock = min(ahead, account.tag)

    def close(self, sequence: SequenceState) -> None:
        """Close a request that has ended, and correct the charge to its actual output."""
        account = self._accounts[sequence.client]
        num_tokens = len(sequence.request.output_ids)
        if sequence.is_charged:
            account.tag += num_tokens - sequence.num_expected
            account.mean_output += _NEWS_WEIGHT * (num_tokens - account.mean_output)
            self._mean_output += _NEWS_WEIGHT * (num_tokens - self._mean_output)
        account.num_requests -= 1
        self._num_requests -= 1
        if not self._num_requests or len(self._accounts) > _MOST_IDLE + 2 * self._num_requests:
            self._forget_idle()

    def _forget_idle(self) -> None:
        """Forget the accounts of clients without open requests."""
        self._accounts = {
            client: account for client, account in self._accounts.items() if account.num_requests
        }
