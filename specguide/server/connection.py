"""Owns a connection's bounds: how many there are, and how long one may send no header or leave an answer unread."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from specguide.server.config import ServerConfig
from specguide.server.errors import ApiError

_LOOKS = 4  # in the time of the shortest bound
_UNREAD_BYTES = 1 << 17
"""Of an answer, in the socket's buffer; else the kernel takes up to some MB before anybody notices an absent reader."""


def uvicorn_config(app: ASGIApp, config: ServerConfig, **options: Any) -> uvicorn.Config:
    """To run the app with the config's bounds of connections. options: of uvicorn.Config"""
    return uvicorn.Config(app, http=partial(BoundedConnection, config), ws="none", **options)  # type: ignore[arg-type]


class BoundedConnection(H11Protocol):
    """uvicorn's connection, which by itself waits for ever for a header and for a reader."""

    def __init__(self, limits: ServerConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._state: tuple[str, object] = ("", None)
        self._since_s = 0.0
        self._next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses one too many."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
        if len(self.connections) > self._limits.max_connections:
            transport.write(_refusal(self._limits.max_connections))
            transport.close()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops looking."""
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Cut the connection where it has been waiting for the same thing for too long."""
        waits_for, limits, now_s = self._waits_for(), self._limits, self.loop.time()
        state = (waits_for, self.cycle)
        if state != self._state:
            self._state, self._since_s = state, now_s
        bounds = {"header": limits.header_timeout_s, "reader": limits.write_timeout_s}
        if now_s - self._since_s >= bounds.get(waits_for, now_s):
            self.transport.abort()
            return
        self._next_look = self.loop.call_later(min(bounds.values()) / _LOOKS, self._look)

    def _waits_for(self) -> str:
        if self.flow.write_paused or self.transport.is_closing():
            return "reader"
        return "header" if self.cycle is None or self.cycle.response_complete else ""


def _refusal(most: int) -> bytes:
    error = ApiError(503, f"there are {most} connections already; try again later", kind="server_error",
                     code="too_many_connections")
    body = json.dumps(error.body()).encode()
    return (b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
