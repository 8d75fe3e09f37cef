"""Owns answers that are server-sent events: when they begin, and signs of life in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from specguide.errors import SpecguideError
from specguide.server.http.errors import ApiError

PING_S = 15.0
"""Longest time without bytes, seconds. Proxies cut connections that are silent for longer: nginx
and load balancers of clouds after 60 s."""
PING = b": waiting\n\n"
"""A comment, which clients skip."""


_LOGGER = logging.getLogger(__name__)


class EventStream(StreamingResponse):
    """Server-sent events. Nothing is sent before the first event exists: an error until then is
    raised, and gets its own status. Only where it takes longer than PING_S, comments come before
    it, and an error becomes an event.

    beginning: gives the events
    failed:    writes the events of an error that comes after a comment
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        beginning: asyncio.Future[AsyncIterator[bytes]],
        headers: dict[str, str],
        failed: Callable[[ApiError], bytes],
    ) -> None:
        super().__init__((), headers=headers)
        self._beginning, self._failed = beginning, failed
        self._is_open = self._has_sent = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError, which nobody reads, where the client leaves before anything is sent."""
        await super().__call__(scope, receive, send)
        if not self._is_open:
            raise ApiError.client_left()

    async def stream_response(self, send: Send) -> None:
        """See StreamingResponse."""

        async def noted(message: Message) -> None:
            self._has_sent = True
            await send(message)

        pings = asyncio.ensure_future(self._ping(send))
        try:
            pieces = await self._begun()
            await self._open(send)
            async for piece in pieces:
                await noted({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            pings.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begun(self) -> AsyncIterator[bytes]:
        """The events. Raises what `beginning` does, as long as nothing has been sent."""
        try:
            return await self._beginning
        except Exception as cause:
            if not self._is_open:
                raise
            return _once(self._failed(_as_answered(cause)))

    async def _open(self, send: Send) -> None:
        if not self._is_open:
            self._is_open = True
            head = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **head})

    async def _ping(self, send: Send) -> None:
        """Send a comment wherever nothing has been sent for PING_S."""
        with suppress(OSError):  # the client has left
            while True:
                self._has_sent = False
                await asyncio.sleep(PING_S)
                if not self._has_sent:
                    await self._open(send)
                    await send({"type": "http.response.body", "body": PING, "more_body": True})


def _as_answered(cause: Exception) -> ApiError:
    if isinstance(cause, SpecguideError):
        return ApiError.of(cause)
    if isinstance(cause, ApiError):
        return cause
    _LOGGER.error("a stream has not begun for an unexpected error", exc_info=cause)
    return ApiError.unforeseen()


async def _once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece
