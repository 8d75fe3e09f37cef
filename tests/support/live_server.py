"""Owns an API server on the shipped model, in a thread, for tests that talk to it over HTTP."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import uvicorn

from benchmarks.services.process import free_port
from specguide.config import EngineConfig, SpecConfig
from specguide.engine import AsyncEngine, Engine
from specguide.server.app import create_app
from specguide.server.config import ServerConfig
from specguide.server.http.connection import uvicorn_config

KEY = "a secret"


class Server:
    """A server that runs in a thread until it is stopped. max_waiting: as of AsyncEngine"""

    def __init__(self, config: EngineConfig, limits: ServerConfig, max_waiting: int = 1024) -> None:
        self.engine = AsyncEngine(
            Engine(config), max_waiting=max_waiting, max_wait_s=limits.longest_wait_s
        )
        self.app = create_app(self.engine, limits)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(
            uvicorn_config(self.app, limits, port=self.port, log_level="error")
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.02)

    def connect(self, text: bytes = b"", receive_bytes: int | None = None) -> socket.socket:
        """See `connect`."""
        return connect(self.port, text, receive_bytes)

    def stop(self) -> None:
        """Stop, and check that no request is left, and that the engine is whole and then gone."""
        until(lambda: self.engine.num_unfinished == 0, 20)
        self.engine._engine.check_integrity()
        self._server.should_exit = True
        self._thread.join(30)
        assert not self.engine.health.is_healthy


def small_server(
    api_keys: tuple[str, ...] = (KEY,),
    *,
    trace: bool = False,
    lora_modules: tuple[str, ...] = (),
    **limits: Any,
) -> Server:
    """A server with speculation, and room for small bodies alone. limits: fields of ServerConfig"""
    return Server(
        EngineConfig(spec=SpecConfig(), max_batch_size=8, trace=trace, lora_modules=lora_modules),
        ServerConfig("small", api_keys=api_keys, max_body_bytes=200_000, max_tools=600, **limits),
    )


def ask_and_leave(server: Server, path: str, stream: bool, **fields: Any) -> None:
    """Ask for a long answer, leave before its end, and check that its slot becomes free."""
    before = server.engine.num_unfinished
    try:
        with httpx.stream(
            "POST",
            server.url + path,
            json={"model": "small", "ignore_eos": True, "stream": stream, **fields},
            timeout=1.5,
            headers={"Authorization": f"Bearer {KEY}"},
        ) as answer:
            next(answer.iter_lines())
    except httpx.TimeoutException:
        assert not stream
    until(lambda: server.engine.num_unfinished <= before, 10)
    assert server.engine.num_unfinished == before


def connect(port: int, text: bytes = b"", receive_bytes: int | None = None) -> socket.socket:
    """A connection on which a text was sent. receive_bytes: size of the socket's buffer"""
    one = socket.socket()
    if receive_bytes is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.settimeout(30)
    one.connect(("127.0.0.1", port))
    one.sendall(text)
    return one


def read_all(one: socket.socket) -> bytes:
    """The bytes that come until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := one.recv(1 << 16):
            found += piece
    return found


def until(condition: Callable[[], object], timeout_s: float = 15.0) -> None:
    """Wait for a condition; fails where it does not come true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()
