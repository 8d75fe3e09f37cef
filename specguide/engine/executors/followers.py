"""Owns the processes of the ranks other than 0: how they start, what they are told, how they end,
and which of them it was when an iteration fails."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from specguide.engine.executors.rank_process import Failed, Said, main
from specguide.errors import EngineError

_END_S = 5.0
_GRACE_S = 5.0
"""For what a rank still says when another has failed."""


class RankFailed(EngineError):
    """A rank other than 0 has said that it failed, or said nothing."""


class Follower:
    """One rank's process.

    rank:     its number
    last_words: what it has said that it failed with
    """

    def __init__(self, rank: int, timeout_s: float) -> None:
        ours, theirs = socket.socketpair()
        seconds = max(1, int(timeout_s))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, 0))
        run = f"from {main.__module__} import main; main({theirs.fileno()}, {os.getpid()})"
        self.rank = rank
        self.last_words: Failed | None = None
        self.process = subprocess.Popen(
            [sys.executable, "-c", run], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self.end = weakref.finalize(self, _end, self.process, self._connection)

    def tell(self, message: Any) -> None:
        """Raises OSError where it has ended, or reads nothing."""
        self._connection.send(message)

    def hear(self, timeout_s: float) -> str:
        """What it says next. Raises RankFailed."""
        if not self._connection.poll(timeout_s):
            raise RankFailed(f"{self} said nothing for {timeout_s:g} s")
        answer = self._connection.recv()
        if isinstance(answer, Failed):
            self.last_words = answer
            raise RankFailed(f"{self} failed: {answer.words}")
        assert isinstance(answer, Said)
        return answer.value

    def listen(self, until_s: float) -> None:
        """Note its last words, if it says them by `until_s` of `time.perf_counter`."""
        try:
            while self.last_words is None:
                self.hear(max(0.0, until_s - time.perf_counter()))
        except RankFailed:
            pass
        except (EOFError, OSError):  # its process is about to end
            self._await_end(max(0.0, until_s - time.perf_counter()))

    def _await_end(self, timeout_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)

    def end_in_words(self) -> str | None:
        """How its process has ended; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        if code < 0:
            return f"{self} was ended by {signal.Signals(-code).name}"
        return f"{self} ended with exit code {code}"

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.end()

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process.pid})"


def whose_fault(followers: list[Follower], cause: BaseException, timeout_s: float) -> str:
    """Why an iteration failed at rank 0 with `cause`, by the rank whose fault it was.

    One that was ended from outside comes first, then one that says what it failed with; one that
    says nothing at all while others waited for it is stalled.
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
            return f"{follower} is stalled: it did not come for {timeout_s:g} s (rank_timeout_s)"
    return f"rank 0 failed: {cause}"


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    """It ends by itself when nothing can come any more."""
    connection.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
