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
from collections.abc import Awaitable, Iterator

import uvicorn
from fastapi import FastAPI

from specguide.server.config import ServerConfig
from specguide.server.http.connection import uvicorn_config
from specguide.server.http.errors import ApiError

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
    """Serves an application until `stop` is called, and ends the process within the time given
    then and 2 seconds of it.

    From then on new requests are told 503, as /ready is. Those under way have their time; the
    engine then aborts them, and each is told its end. uvicorn by itself waits for all connections,
    before the application hears of it. Signals are somebody else's to answer. Exit code 0 once
    stopped.

    app:     made by `create_app`
    options: of uvicorn.Config
    """

    def __init__(self, app: FastAPI, limits: ServerConfig, **options: object) -> None:
        super().__init__(uvicorn_config(app, limits, **options))
        self._engine, self._bodies = app.state.backend.engine, app.state.bodies
        self._drain_s = 0.0

    def stop(self, drain_s: float) -> None:
        """Begin to stop.

        drain_s: longest time that requests under way are given, seconds
        """
        self._drain_s = drain_s
        self.should_exit = True
        if math.isfinite(drain_s):
            faulthandler.dump_traceback_later(drain_s + _LONGEST_S, exit=True, file=_STANDARD_ERROR)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves them as they are."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until it is stopped, and the process ends."""
        await super().serve(sockets)
        logging.shutdown()
        with contextlib.suppress(OSError):  # of a disk that is full
            sys.stdout.flush()
        os._exit(0)  # threads that are inside a library would hold up an orderly end, or abort it

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
