"""Owns the connections and messages between hosts whose ranks run one model together.

Rank 0's host listens, and the others connect (`specguide join`). Messages are pickled, so each end
must first prove that it knows a secret key, which both read from the environment
(`SPECGUIDE_RANKS_KEY`); nothing that strangers send is unpickled. Nothing is encrypted, so such
hosts need a private network.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from specguide.engine.executors.followers import set_timeout
from specguide.errors import EngineError, InvalidParams
from specguide.host import env

_HANDSHAKE_S = 10
_WATCHED = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_USER_TIMEOUT": 30_000}
"""Times after which the kernel gives up a host that does not answer: seconds, the last one
milliseconds."""


@dataclass(frozen=True)
class HostCame:
    """A host offers to run `num_ranks` ranks.

    version: its versions of specguide and torch
    """

    num_ranks: int
    version: str


@dataclass(frozen=True)
class HostRuns:
    """Tells a host to run these ranks."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class HostRefused:
    """Tells a host that it is refused, and why, in words."""

    words: str


@dataclass(frozen=True)
class RankCame:
    """The process of a rank has started; sent on a connection of its own."""

    rank: int


@dataclass(frozen=True)
class RankEnded:
    """The process of a rank has ended. words: how"""

    rank: int
    words: str


def ranks_key() -> bytes:
    """The secret key that both ends know. Raises InvalidParams where none is set."""
    key = env.ranks_key()
    if not key:
        raise InvalidParams(
            "ranks on several hosts need a shared secret key: set the environment variable "
            "SPECGUIDE_RANKS_KEY to the same random text on each host",
            param="rank_address",
        )
    return key.encode()


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of a text HOST:PORT. Raises InvalidParams."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InvalidParams(
            "the address of rank 0 must be HOST:PORT, for example 10.0.0.1:29500; found "
            f"{address!r}",
            param="rank_address",
        )
    return host.strip("[]"), int(port)


def came(link: socket.socket, key: bytes) -> Connection:
    """Accept a peer that has connected. Returns the connection. Raises OSError, and EngineError
    where the peer does not know the key."""
    with _handshake(link) as connection:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    return connection


def reach(address: tuple[str, int], key: bytes) -> Connection:
    """Connect to the peer that listens at `address`. Raises OSError where nobody listens there (any
    more), and EngineError where the peer does not know the key."""
    with _handshake(socket.create_connection(address, _HANDSHAKE_S)) as connection:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    return connection


@contextmanager
def _handshake(link: socket.socket) -> Iterator[Connection]:
    """A context for the handshake on a link. It sets keepalive options, by which the kernel notices
    a peer that is gone. Where the handshake fails, it closes the link."""
    link.setblocking(True)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _WATCHED.items():
        if hasattr(socket, option):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    connection = Connection(link.detach())
    set_timeout(connection, socket.SO_RCVTIMEO, _HANDSHAKE_S)
    try:
        yield connection
    except BaseException as cause:
        connection.close()
        if isinstance(cause, AuthenticationError):
            raise EngineError(
                "the two hosts have different keys: set SPECGUIDE_RANKS_KEY to the same text on "
                "both"
            ) from cause
        if isinstance(cause, EOFError):
            raise ConnectionError("the other end closed the connection") from cause
        raise
    set_timeout(connection, socket.SO_RCVTIMEO, 0)
