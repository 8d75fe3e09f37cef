"""Owns the stop of a server: requests under way get time to finish, the rest are told their end,
and then the process ends."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import socket
import sys
import threading
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
"""Seconds after drain_s: until the engine is closed, the last answers are read, and the application
is done; and at the latest, if something holds the process up, until it is ended from outside
Python, with the stacks of its threads on standard error."""
_LOOK_S = 0.02
_STANDARD_ERROR = 2


class StoppableServer(uvicorn.Server):
    """Serves an application until `stop` is called, and ends the process at most 2 seconds after
    the time given to `stop`.

    From then on new requests are answered with 503, and so is /ready. Requests under way have their
    time; the engine then aborts the rest, and each is told its end. uvicorn itself would wait for
    all connections before it tells the application. Signals are handled elsewhere. Exits with 0
    once stopped.

    app:     made by `create_app`
    options: of uvicorn.Config
    """

    def __init__(self, app: FastAPI, limits: ServerConfig, **options: object) -> None:
        super().__init__(uvicorn_config(app, limits, **options))
        self._engine, self._bodies = app.state.backend.engine, app.state.bodies
        self._drain_s = 0.0

    def stop(self, drain_s: float) -> None:
        """Begin to stop.

        drain_s: longest time that requests under way get to finish, seconds
        """
        self._drain_s = drain_s
        self.should_exit = True
        if drain_s + _LONGEST_S < threading.TIMEOUT_MAX:
            faulthandler.dump_traceback_later(drain_s + _LONGEST_S, exit=True, file=_STANDARD_ERROR)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signal handlers as they are."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the server is stopped, and end the process."""
        await super().serve(sockets)
        logging.shutdown()
        with contextlib.suppress(OSError):  # such as a full disk
            sys.stdout.flush()
        os._exit(0)  # threads that are inside a library would hold up an orderly end, or abort it

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, wait for the requests under way, tell the rest their end, close all
        connections."""
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
    """Wait for the work, at most until this time of the event loop."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(work, max(0.0, end_s - asyncio.get_running_loop().time()))
