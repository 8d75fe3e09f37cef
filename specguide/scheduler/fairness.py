"""Owns what clients have been served: whose tokens are paid for, and who is next by that.

Clients share by self-clocked fair queueing, which is deficit round robin without its rounds. Each
client has a tag, in tokens: it grows by what the client is served, and the least tag is next. Who
begins to wait starts at the clock at least, so nobody saves up a share that was not wanted. The
clock goes on by a client's part of what is served, and stays between the tags that the client
served last had before and has now: who comes late waits for little, and those who go on coming
keep nobody from a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from specguide.scheduler.sequence import SequenceState

_FIRST_GUESS = 128.0
"""Tokens of output, before any request has ended."""

_NEWS_WEIGHT = 0.1
"""Weight of the last output among earlier ones in the mean that is expected."""

_MOST_IDLE = 1024


@dataclass(eq=False)
class Account:
    """What a client was served. tag: tokens, see above

    mean_output:  tokens that one of its outputs is expected to have
    num_requests: that wait or run
    """

    mean_output: float
    tag: float = 0.0
    num_requests: int = 0


class ClientShares:
    """Charges clients for what their requests cost: the prompt tokens that have to be computed and
    the output that is expected when a request gets its slot, and the rest of its output when it
    ends."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._clock = 0.0
        self._mean_output = _FIRST_GUESS
        self._num_requests = 0

    def open(self, sequence: SequenceState) -> None:
        """A request has come."""
        if sequence.client not in self._accounts:
            self._accounts[sequence.client] = Account(self._mean_output)
        account = self._accounts[sequence.client]
        account.num_requests += 1
        self._num_requests += 1
        most = sequence.max_len - len(sequence.request.prompt_ids)
        sequence.num_expected = min(most, round(account.mean_output))

    def tag(self, client: str) -> float:
        """The tag of a client with requests that are open."""
        return self._accounts[client].tag

    def begin_to_wait(self, client: str) -> None:
        """The client had nothing that waits."""
        account = self._accounts[client]
        account.tag = max(account.tag, self._clock)

    def charge(self, sequence: SequenceState, num_to_compute: int, num_clients: int) -> None:
        """Charge the client of a request that gets a slot. What the request computes again after it
        has lost its slot is not the client's doing.

        num_to_compute: tokens whose keys are not there
        num_clients:    that wait, its own included
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
        """The request has ended, wherever it was."""
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
        """All that nobody's request needs. Where nobody waits or runs there is nothing to share."""
        self._accounts = {
            client: account for client, account in self._accounts.items() if account.num_requests
        }
