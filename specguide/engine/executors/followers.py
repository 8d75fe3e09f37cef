"""Owns the processes of ranks 1 and up: how they start, get messages and end, and which of them is
to blame when an iteration fails."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from specguide.engine.executors.rank_process import Failed, Said, main
from specguide.errors import EngineError
from specguide.host.processes import ended_by
from specguide.parallel import OWN_HOST

START_S = 300.0
"""Seconds within which the process of a rank must send its first message."""
END_S = 5.0
"""Seconds within which a rank's process must end by itself."""
_GRACE_S = 5.0
"""Seconds in which a rank may still send its last message after another has failed."""


class RankFailed(EngineError):
    """A rank other than 0 has reported a failure, or has not answered."""


class RankUnfit(EngineError):
    """A rank other than 0 cannot take part. The message names it and says why."""


class Follower:
    """One rank's process, on this host.

    rank:     its number
    address:  address of its host, as others reach it; None: the host of rank 0
    index:    index of its device on its host
    last_words: the failure that it has reported
    """

    process: subprocess.Popen[bytes]
    end: Callable[[], object]
    address: str | None = None

    def __init__(self, rank: int, connection: Connection, timeout_s: float) -> None:
        """timeout_s: longest time that it may leave a message unread, seconds"""
        set_timeout(connection, socket.SO_SNDTIMEO, max(1, int(timeout_s)))
        self.rank = self.index = rank
        self.last_words: Failed | None = None
        self._connection = connection

    @classmethod
    def started(cls, rank: int, timeout_s: float) -> Follower:
        """Start a new process. timeout_s: as in the constructor"""
        ours, theirs = socket.socketpair()
        run = f"from {main.__module__} import main; main({theirs.fileno()}, {os.getpid()})"
        follower = cls(rank, Connection(ours.detach()), timeout_s)
        follower.process = subprocess.Popen(
            [sys.executable, "-c", run], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()
        follower.end = weakref.finalize(follower, _end, follower.process, follower._connection)
        return follower

    def tell(self, message: Any) -> None:
        """Send a message. Raises OSError where the process has ended, or does not read."""
        self._connection.send(message)

    def hear(self, timeout_s: float) -> str:
        """Wait for its next answer. Raises RankFailed where none comes, or it reports a failure."""
        if not self._connection.poll(timeout_s):
            raise RankFailed(f"{self} sent no answer within {timeout_s:g} s")
        answer = self._connection.recv()
        if isinstance(answer, Failed):
            self.last_words = answer
            raise RankFailed(f"{self} failed: {answer.words}")
        assert isinstance(answer, Said)
        return answer.value

    def hear_first(self, timeout_s: float) -> None:
        """Wait for its first message. Raises RankUnfit where none comes."""
        within_s = max(START_S, timeout_s)
        if not self._connection.poll(within_s):
            raise RankUnfit(
                f"{self} did not start within {within_s:g} s: check whether its process is stopped "
                "or waits for a disk; if starts are slow on this host, raise rank_timeout_s"
            )
        self.hear(timeout_s)

    def listen(self, until_s: float) -> None:
        """Wait for its last words until `until_s` of `time.perf_counter`, and keep them."""
        try:
            while self.last_words is None:
                self.hear(max(0.0, until_s - time.perf_counter()))
        except RankFailed:
            pass
        except (EOFError, OSError):  # its process is about to end
            self._await_end(max(0.0, until_s - time.perf_counter()))

    def end_in_words(self) -> str | None:
        """How its process has ended, in words; None while it runs."""
        exit_code = self.process.poll()
        return None if exit_code is None else f"{self} {ended_by(exit_code)}"

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.end()

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process.pid})"

    def _await_end(self, timeout_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)


@dataclass(frozen=True)
class OneHost:
    """The single host of all ranks; `joined.Hosts` is the counterpart for several hosts. start:
    makes the follower of a rank, with its timeout in seconds"""

    start: Callable[[int, float], Follower]
    address: str = OWN_HOST

    def follower(self, rank: int, timeout_s: float) -> Follower:
        return self.start(rank, timeout_s)

    def close(self) -> None:
        """Does nothing: no hosts join."""


def set_timeout(connection: Connection, option: int, seconds: int) -> None:
    """Make reads (SO_RCVTIMEO) or writes (SO_SNDTIMEO) raise OSError after `seconds`; 0: never."""
    with socket.socket(fileno=connection.fileno()) as link:
        link.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))
        link.detach()


def whose_fault(followers: list[Follower], cause: BaseException, timeout_s: float) -> str:
    """Why an iteration failed at rank 0 with `cause`, naming the rank that is to blame.

    First comes a rank that reports an error of its own, then a rank whose process has ended. A rank
    that says nothing, while others waited for it, is stalled.
    """
    until_s = time.perf_counter() + min(_GRACE_S, timeout_s)
    for follower in followers:
        follower.listen(until_s)
    for follower in followers:
        words = follower.last_words
        if words is not None and words.is_ours:
            return f"{follower} failed: {words.words}"
    for follower in followers:
        if follower.last_words is None and follower.end_in_words():
            return str(follower.end_in_words())
    for follower in followers:
        if follower.last_words is None:
            return (
                f"{follower} is stalled: it did not answer for {timeout_s:g} s (rank_timeout_s); "
                "if it is only slow, raise rank_timeout_s"
            )
    return f"rank 0 failed: {cause}"


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    """End the process: it exits by itself when its connection is closed; else it is killed."""
    connection.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
