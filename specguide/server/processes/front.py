"""Owns a front of a service: a process that serves HTTP and talks to the engine's core."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import uvloop
from fastapi import FastAPI

from specguide.engine.serving.control import CoreDown, CoreUp, FrontReady, Stop, order_of
from specguide.engine.serving.remote_engine import RemoteEngine
from specguide.engine.setup.target_folder import load_tokenizer
from specguide.host.processes import live_with, settle
from specguide.server.app import create_app
from specguide.server.config import ServerConfig
from specguide.server.http.connection import most_connections
from specguide.server.http.request_log import log_config, write_refusals
from specguide.server.processes.listening import listener
from specguide.server.processes.plans import FrontPlan
from specguide.server.processes.stop import StoppableServer
from specguide.server.rehearsal import rehearse

_SHORTEST_S = 1e-3
"""Shortest timeout; uvloop refuses one of 0."""


def run_front(plan: FrontPlan, control: Connection, parent_pid: int) -> None:
    """Run a front's process to its end. Exits with 0 once it is told to stop."""
    live_with(parent_pid, "specguide-front")
    loop_factory = partial(BoundedLoop, plan.config.header_timeout_s)
    uvloop.run(_serve(plan, control), loop_factory=loop_factory)


class BoundedLoop(uvloop.Loop):
    """An event loop whose servers limit a client's part of the TLS handshake to the time for a
    header; the default is a minute. Until the handshake's end a connection is neither counted nor
    checked."""

    def __init__(self, handshake_s: float) -> None:
        super().__init__()
        self._handshake_s = max(handshake_s, _SHORTEST_S)

    async def create_server(  # type: ignore[override]
        self, *args: Any, **options: Any
    ) -> asyncio.AbstractServer:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = self._handshake_s
        return await super().create_server(*args, **options)


async def _serve(plan: FrontPlan, control: Connection) -> None:
    engine = RemoteEngine(plan.facts, load_tokenizer(plan.facts.config), plan.name)
    config = replace(plan.config, max_connections=most_connections(plan.config.max_connections))
    app = create_app(engine, config)
    server = _Front(app, config, control)
    asyncio.get_running_loop().add_reader(control.fileno(), _obey, control, engine, server)
    await server.serve([listener(address) for address in plan.addresses])


class _Front(StoppableServer):
    """A server that tells the supervisor when it listens."""

    def __init__(self, app: FastAPI, config: ServerConfig, control: Connection) -> None:
        logging = {"log_config": log_config(), "access_log": not config.disable_uvicorn_access_log}
        super().__init__(app, config, log_level="info", **logging)
        if config.log_requests:
            write_refusals()
        self._app, self._control = app, control

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await rehearse(self._app)
        settle()
        await super().startup(sockets)
        self._control.send(FrontReady())


def _obey(control: Connection, engine: RemoteEngine, server: StoppableServer) -> None:
    match order_of(control):
        case CoreUp(address):
            engine.connect(address)
        case CoreDown(cause):
            engine.disconnect(cause)
        case Stop(drain_s):
            server.stop(drain_s)
