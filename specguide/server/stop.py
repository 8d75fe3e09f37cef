"""Owns how a server stops: what is under way is given its time, is told its end, and then the
process is gone."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import math
import os
import socket
import sys
from collections.abc import Awaitable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from specguide.server.config import ServerConfig
from specguide.server.connection import uvicorn_config
from specguide.server.errors import ApiError

_ENGINE_S = 0.8
_ANSWERS_S = 1.1
_REST_S = 0.3
_LONGEST_S = 1.9
"""After drain_s: until the engine is closed, the last answers are read, the application is done;
and until, whatever holds the process up, it is ended from outside Python, with what its threads
were at on standard error."""
_LOOK_S = 0.02
_STANDARD_ERROR = 2


class StoppableServer(uvicorn.Server):
    """Serves an application until SIGTERM or SIGINT, and ends the process within `drain_s` and 2
    seconds of it.

    From the signal on new requests are told 503, as /ready is. Those under way have drain_s; the
    engine then aborts them, and each is told its end. uvicorn by itself waits for all connections,
    before the application hears of it. Exit codes: 0 once stopped, 128 + its number for a second
    signal, which ends the process at once.

    app:     made by `create_app`
    options: of uvicorn.Config
    """

    def __init__(self, app: FastAPI, limits: ServerConfig, **options: object) -> None:
        super().__init__(uvicorn_config(app, limits, **options))
        self._engine, self._bodies = app.state.backend.engine, app.state.bodies
        self._drain_s, self._has_signal = limits.drain_s, False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Of the first signal and the second."""
        if self._has_signal:
            os._exit(128 + sig)
        self._has_signal = self.should_exit = True
        if math.isfinite(self._drain_s):
            faulthandler.dump_traceback_later(
                self._drain_s + _LONGEST_S, exit=True, file=_STANDARD_ERROR
            )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Until it is stopped; where that was a signal's doing, the process ends here."""
        await super().serve(sockets)
        if (
            self._has_signal
        ):  # threads that are inside a library would hold up an orderly end, or abort it
            logging.shutdown()
            sys.stdout.flush()
            os._exit(0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, wait for what is under way, tell it its end, close all connections."""
        end_s = asyncio.get_running_loop().time() + self._drain_s
        self._bodies.close(ApiError.shutting_down())
        await _until(end_s + _ENGINE_S, self._engine.close(self._drain_s))
        for listener in [*self.servers, *(sockets or ())]:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await _until(end_s + _ANSWERS_S, self._connections_closed())
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await _until(end_s + _ANSWERS_S + _REST_S, self._tasks_done())
        for task in self.server_state.tasks:
            task.cancel()
        await _until(end_s + _ANSWERS_S + 2 * _REST_S, self.lifespan.shutdown())

    async def _connections_closed(self) -> None:
        while self.server_state.connections:
            await asyncio.sleep(_LOOK_S)

    async def _tasks_done(self) -> None:
        while self.server_state.tasks:
            await asyncio.sleep(_LOOK_S)


async def _until(end_s: float, work: Awaitable[object]) -> None:
    """Wait for it, no longer than to this time of the event loop."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(work, max(0.0, end_s - asyncio.get_running_loop().time()))
