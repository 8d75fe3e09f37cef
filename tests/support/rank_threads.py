"""Ranks as threads of the test's process, which start at once: they run what rank processes run,
over sockets and gloo alike."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from specguide import LLM
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors import RanksExecutor, rank_process
from specguide.engine.executors.followers import Follower
from specguide.engine.executors.rank_process import Failed
from specguide.engine.setup.facts import resolved
from specguide.parallel import CollectiveFailed

_PATIENCE_S = 4
"""Longest wait for a thread, seconds. It may hang in a sum that other ranks never reach, and then
it ends with the process."""


class ThreadFollower(Follower):
    """A rank in a thread; it ends when its connection does."""

    def __init__(self, rank: int, timeout_s: float) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(rank, Connection(ours.detach()), timeout_s)
        self._socket = theirs.detach()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection = Connection(self._socket)
        try:
            rank_process.run(connection)
        except (EOFError, OSError):
            pass
        except Exception as cause:
            is_ours = not isinstance(cause, CollectiveFailed)
            with suppress(OSError):
                connection.send(Failed(f"{type(cause).__name__}: {cause}", is_ours))

    def _await_end(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def end_in_words(self) -> str | None:
        return None

    def end(self) -> None:
        self._connection.close()
        self._thread.join(_PATIENCE_S)

    kill = end

    def __str__(self) -> str:
        return f"rank {self.rank}"


def executor(config: EngineConfig) -> RanksExecutor:
    return RanksExecutor.load(resolved(config), ThreadFollower)


def llm(config: EngineConfig) -> LLM:
    return LLM.around(Engine(config, executor(config)))
