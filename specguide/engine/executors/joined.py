"""Owns the ranks on other hosts, as rank 0's host sees them: how their hosts join, and how they
end."""

from __future__ import annotations

import logging
import socket
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing.connection import Connection

import torch

from specguide.engine.executors.followers import START_S, Follower, RankUnfit
from specguide.engine.executors.host_links import (
    HostCame,
    HostRefused,
    HostRuns,
    RankCame,
    RankEnded,
    came,
    host_and_port,
    ranks_key,
)
from specguide.errors import EngineError
from specguide.host.release import versions

_LOGGER = logging.getLogger(__name__)
_LOOK_S = 0.1


class JoinedHost:
    """A host that runs some of the ranks.

    address: its address as seen from here
    first:   the first of its ranks
    """

    def __init__(self, connection: Connection, address: str, first: int) -> None:
        self.address, self.first = address, first
        self._connection = connection
        self._lock = threading.Lock()
        self._ended: dict[int, str] = {}
        self._is_gone = False

    def end_in_words(self, rank: int) -> str | None:
        """How a rank's process has ended or was lost, in words; None while it runs."""
        with self._lock:
            self._listen()
        return self._ended.get(rank) or ("was lost with its host" if self._is_gone else None)

    def leave(self) -> None:
        """Close the connection, so that the host ends its ranks, also those that hang."""
        with self._lock:
            self._is_gone = True
            self._connection.close()

    def _listen(self) -> None:
        try:
            while not self._is_gone and self._connection.poll(0):
                said: RankEnded = self._connection.recv()
                self._ended[said.rank] = said.words
        except (EOFError, OSError):
            self._is_gone = True


class JoinedFollower(Follower):
    """A rank on another host."""

    def __init__(
        self, rank: int, timeout_s: float, connection: Connection, host: JoinedHost
    ) -> None:
        super().__init__(rank, connection, timeout_s)
        self._host = host
        self.address = host.address
        self.index = rank - host.first
        self.end = weakref.finalize(self, _end, connection, host)

    def end_in_words(self) -> str | None:
        words = self._host.end_in_words(self.rank)
        return None if words is None else f"{self} {words}"

    def kill(self) -> None:
        self.end()

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.address})"

    def _await_end(self, timeout_s: float) -> None:
        until_s = time.perf_counter() + timeout_s
        while self._host.end_in_words(self.rank) is None and time.perf_counter() < until_s:
            time.sleep(_LOOK_S)


class Hosts:
    """The hosts that join to run the ranks for which there is no device here. Each gets as many
    ranks as it offers, while there are any left.

    address:  address of this host, as the others reach it
    num_here: number of ranks on this host: one per GPU, or one on a CPU
    """

    def __init__(self, address: str, num_ranks: int, device: torch.device) -> None:
        """Listen at `address`, HOST:PORT. Raises InvalidParams, and EngineError where that is
        impossible."""
        self._key = ranks_key()
        self.address, port = host_and_port(address)
        self.num_here = max(1, torch.cuda.device_count()) if device.type == "cuda" else 1
        self._given_to = min(self.num_here, num_ranks)
        self._num_ranks = num_ranks
        self._hosts: dict[int, JoinedHost] = {}
        self._ranks: dict[int, Connection] = {}
        try:
            family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
            self._socket = socket.create_server((self.address, port), family=family, backlog=64)
        except OSError as cause:
            raise EngineError(
                f"cannot listen at rank_address {address!r}: {cause}; give an address of this host "
                "and a free port"
            ) from cause
        if self._given_to < num_ranks:
            left = num_ranks - self._given_to
            _LOGGER.warning(
                "waiting for other hosts to run %d ranks; run `specguide join %s` there",
                left,
                address,
            )

    def follower(self, rank: int, timeout_s: float) -> Follower:
        """The follower of a rank: started here, or on another host, for which this waits.
        Raises RankUnfit where that host could not start it."""
        if rank < self.num_here:
            return Follower.started(rank, timeout_s)
        while rank not in self._hosts:
            self._accept(None)
        until_s = time.perf_counter() + START_S
        while rank not in self._ranks:
            words = self._hosts[rank].end_in_words(rank)
            if words is not None or time.perf_counter() > until_s:
                raise RankUnfit(
                    f"rank {rank} did not start: {words or 'it did not connect in time'}"
                )
            self._accept(_LOOK_S)
        return JoinedFollower(rank, timeout_s, self._ranks.pop(rank), self._hosts[rank])

    def close(self) -> None:
        """Stop listening; hosts that have joined stay."""
        self._socket.close()

    def _accept(self, timeout_s: float | None) -> None:
        """Accept one connection, of a host or of a rank."""
        self._socket.settimeout(timeout_s)
        with suppress(TimeoutError):
            link, (address, *_) = self._socket.accept()
            try:
                connection = came(link, self._key)
                self._take(connection, connection.recv(), address)
            except (EngineError, EOFError, OSError) as cause:
                _LOGGER.warning("dropped a connection from %s: %s", address, cause)

    def _take(self, connection: Connection, said: object, address: str) -> None:
        match said:
            case RankCame(rank) if rank in self._hosts:
                self._ranks[rank] = connection
            case HostCame(_, version) if version != versions():
                words = (
                    f"it runs {version}, but rank 0 runs {versions()}; install the same versions "
                    "on all hosts"
                )
                connection.send(HostRefused(words))
                _LOGGER.warning("refused host %s: %s", address, words)
            case HostCame(_, _) if self._given_to == self._num_ranks:
                connection.send(
                    HostRefused("other hosts run all ranks already, so no rank is left for it")
                )
            case HostCame(num_ranks, _):
                ranks = range(self._given_to, min(self._given_to + num_ranks, self._num_ranks))
                host = JoinedHost(connection, address, ranks.start)
                self._hosts |= dict.fromkeys(ranks, host)
                self._given_to = ranks.stop
                connection.send(HostRuns(tuple(ranks)))
                _LOGGER.info("host %s runs ranks %d to %d", address, ranks[0], ranks[-1])


def _end(connection: Connection, host: JoinedHost) -> None:
    """End a rank: it exits when its connection is closed; if it hangs, its host kills it."""
    connection.close()
    host.leave()
