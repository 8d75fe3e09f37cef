"""Owns the bounds of connections: their number, the longest waits for a header and for a client
that reads its answer, and the handling of clients that have closed their sending side."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from specguide.server.config import ServerConfig
from specguide.server.http.errors import ApiError
from specguide.server.http.h11_connection import HttpConnection
from specguide.server.http.lingering import LingeringTransport
from specguide.server.http.metrics import AnswerCounts, set_sent_status
from specguide.server.http.middleware import Cancellable
from specguide.server.http.request_log import AccessLog
from specguide.server.http.tls import tls_options

_LOOKS = 4  # looks within the shortest bound
_UNREAD_BYTES = 1 << 17
"""Most bytes of an answer in the socket's buffer; else the kernel takes up to some MB before an
absent reader is noticed."""
_MOST_HEADER_BYTES = 64 << 10
"""uvicorn's own bound, for a configuration without one."""
_PROBE_S = 0.1
"""Time between checks whether a client that sends nothing more is still there, seconds."""
_MOST_WORDS = 200
"""Most characters of what is wrong in bytes that are not HTTP."""
_OTHER_FILES = 64
"""Files that a front has open besides its connections, including one connection too many until it
is refused."""
_LOGGER = logging.getLogger(__name__)


def most_connections(wanted: int) -> int:
    """The number of connections that this process can have open, at most `wanted`. Raises its limit
    of open files as far as possible: beyond that limit connections would be cut without an
    answer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if 0 <= soft < needed:  # a negative number means no limit
        soft = needed if hard < 0 else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < 0 or soft >= needed:
        return wanted
    found = max(1, soft - _OTHER_FILES)
    _LOGGER.warning(
        "this process may have %d files open, so it serves %d connections at once and not %d: "
        "raise the limit (ulimit -n), or lower --max-connections",
        soft,
        found,
        wanted,
    )
    return found


def uvicorn_config(app: FastAPI, config: ServerConfig, **options: Any) -> uvicorn.Config:
    """The configuration to run an app of `create_app` with the config's bounds of connections.
    options: of uvicorn.Config"""
    options |= tls_options(config.exposure) | {"timeout_keep_alive": config.header_timeout_s}
    connection = partial(BoundedConnection, config, app.state.answers)
    whole = Cancellable(AccessLog(app))
    return uvicorn.Config(whole, http=connection, ws="none", **options)  # type: ignore[arg-type]


class BoundedConnection(H11Protocol):
    """uvicorn's connection, which itself has no bound for the wait for a header or for a reader.

    answers: counts the answers that are given here, before there is a request
    """

    conn: HttpConnection

    def __init__(
        self, limits: ServerConfig, answers: AnswerCounts, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        most_bytes = self.config.h11_max_incomplete_event_size or _MOST_HEADER_BYTES
        self.conn = HttpConnection(h11.SERVER, most_bytes)
        self.access_log = False  # AccessLog writes them all
        self._limits, self._answers = limits, answers
        self._state: tuple[str, object] = ("", None)
        self._since_s = 0.0
        self._next_look: asyncio.TimerHandle | None = None
        self._next_probe: asyncio.TimerHandle | None = None
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses a connection beyond the bound."""
        self._lingering = LingeringTransport(transport, self._is_body_coming)
        super().connection_made(self._lingering)  # type: ignore[arg-type]
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES
        )
        if len(self.connections) > self._limits.max_connections:
            self._answers.count(503)
            transport.write(_closing(_too_many(self._limits.max_connections)))
            transport.close()
        self._look()

    def data_received(self, data: bytes) -> None:
        """Reads what comes, unless the answer has ended before the request."""
        if self._lingering.is_lingering:
            self._lingering.throw_away(data)
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops looking."""
        for look in (self._next_look, self._next_probe):
            if look is not None:
                look.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends nothing more. Returns True, so that the connection stays open, where the
        client may wait for an answer; with TLS there is no such state."""
        if self.transport.get_extra_info("sslcontext") is not None:
            return False
        if self._is_half_closed:
            return True
        if self.cycle is None or self.cycle.more_body or self.cycle.response_complete:
            return False
        self._is_half_closed = True
        if not self.cycle.response_started and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(
                self.conn.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
            )
        self._probe()
        return True

    def send_400_response(self, msg: str) -> None:
        """Tells a client why its bytes are not valid HTTP, unless its request has been answered
        already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            error = _no_http(self.conn.fault)
            if self.cycle is None or self.cycle.response_complete:
                self._answers.count(error.status)
            else:
                set_sent_status(self.cycle.scope, error.status)  # type: ignore[arg-type]
            self.transport.write(_closing(error))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing: an offer of another protocol is answered in HTTP/1.1, and some clients,
        such as Java's, make one with each request."""

    def on_response_complete(self) -> None:
        """Goes on to the next request, or closes the connection where no further one can come."""
        super().on_response_complete()
        if self._is_half_closed and (self.cycle.response_complete or self.cycle.more_body):
            self.transport.close()

    def _is_body_coming(self) -> bool:
        return self.cycle is not None and self.cycle.more_body

    def _probe(self) -> None:
        """Cancels the request of a client that has left for good, which the socket's error shows
        after a failed write.

        A client that has left and one that only sends nothing more look alike until something is
        written, and the event loop does not watch a half-closed socket.
        """
        if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self._next_probe = self.loop.call_later(_PROBE_S, self._probe)

    def _look(self) -> None:
        """Cut the connection where it has been waiting for the same thing for too long."""
        waits_for = self._waits_for()
        limits = self._limits
        now_s = self.loop.time()
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


def _no_http(fault: h11.RemoteProtocolError | None) -> ApiError:
    if fault is None:
        return ApiError(400, "the request is not valid HTTP/1.1")
    words = str(fault).replace("bytearray(b", "").replace("(expected b", "(expected ")
    words = words.replace("')", "'").replace('")', '"')
    shown = words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]} …"
    return ApiError(fault.error_status_hint, f"the request is not valid HTTP/1.1: {shown}")


def _too_many(most: int) -> ApiError:
    return ApiError(
        503,
        f"there are {most} connections already; try again later",
        kind="server_error",
        code="too_many_connections",
    )


def _closing(error: ApiError) -> bytes:
    """An error as the last answer of a connection."""
    response = error.response(closes=True)
    status = HTTPStatus(error.status)
    pairs = ((name.title(), value) for name, value in response.raw_headers)
    headers = b"".join(b"%b: %b\r\n" % header for header in pairs)
    head = b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    return head + headers + b"\r\n" + bytes(response.body)
