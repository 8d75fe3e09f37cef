"""Owns what hosts whose ranks run one model together say to each other, and over what.

Rank 0's host listens, the others come (`specguide join`). Messages are pickled, so each end must
know a key first, which both have in the environment (`SPECGUIDE_RANKS_KEY`); what strangers send is
no message. Nothing is encrypted: such hosts share a network of their own.
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
"""Seconds, and milliseconds of the last: a host that does not answer the kernel is gone then."""


@dataclass(frozen=True)
class HostCame:
    """A host offers to run so many ranks.

    version: of its specguide, and of its torch
    """

    num_ranks: int
    version: str


@dataclass(frozen=True)
class HostRuns:
    """The host is to run these ranks."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class HostRefused:
    """The host is not wanted, for a reason in words."""

    words: str


@dataclass(frozen=True)
class RankCame:
    """A rank's process has begun, on a connection of its own."""

    rank: int


@dataclass(frozen=True)
class RankEnded:
    """A rank's process has ended, as words say."""

    rank: int
    words: str


def ranks_key() -> bytes:
    """What both ends know. Raises InvalidParams where none is set."""
    key = env.ranks_key()
    if not key:
        raise InvalidParams(
            "ranks of several hosts need a key that all of them know: set SPECGUIDE_RANKS_KEY to "
            "the same random text on each host",
            param="rank_address",
        )
    return key.encode()


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of a text HOST:PORT. Raises InvalidParams."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InvalidParams(
            f"an address is HOST:PORT, as 10.0.0.1:29500; found {address!r}", param="rank_address"
        )
    return host.strip("[]"), int(port)


def came(link: socket.socket, key: bytes) -> Connection:
    """The connection of who has come. Raises OSError, and EngineError where it does not know the
    key."""
    with _handshake(link) as connection:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    return connection


def reach(address: tuple[str, int], key: bytes) -> Connection:
    """A connection to who listens there. Raises OSError where nobody does, or does no more, and
    EngineError where it does not know the key."""
    with _handshake(socket.create_connection(address, _HANDSHAKE_S)) as connection:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    return connection


@contextmanager
def _handshake(link: socket.socket) -> Iterator[Connection]:
    """A link during its handshake. Afterwards the kernel watches it; where the handshake fails it
    is closed."""
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
            raise EngineError("the two hosts do not have the same SPECGUIDE_RANKS_KEY") from cause
        if isinstance(cause, EOFError):
            raise ConnectionError("the other end has left") from cause
        raise
    set_timeout(connection, socket.SO_RCVTIMEO, 0)
