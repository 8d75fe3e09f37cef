"""Owns an API server on the shipped model, in a thread, for tests that talk to it over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import uvicorn

from specguide.config import EngineConfig, SpecConfig
from specguide.engine import AsyncEngine, Engine
from specguide.server.app import create_app
from specguide.server.config import ServerConfig

KEY = "a secret"


class Server:
    """Runs in a thread until it is stopped."""

    def __init__(
        self, api_keys: tuple[str, ...] = (KEY,), *, trace: bool = False, **config: Any
    ) -> None:
        self.engine = AsyncEngine(
            Engine(EngineConfig(spec=SpecConfig(), max_batch_size=8, trace=trace))
        )
        app = create_app(
            self.engine,
            ServerConfig(
                "small", api_keys=api_keys, max_body_bytes=200_000, max_tools=600, **config
            ),
        )
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.02)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Checks that no request outlived its client, and that the engine is whole, and then is
        gone."""
        deadline = time.monotonic() + 20
        while self.engine.num_unfinished and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.engine.num_unfinished == 0, "a request outlived its client"
        self.engine._engine.check_integrity()
        self._server.should_exit = True
        self._thread.join(30)
        assert not self.engine.health.is_healthy
