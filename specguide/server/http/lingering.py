"""Owns how a connection is closed whose client is still sending: it takes what comes until the
client has read its answer. Else the kernel would reset the connection, and clients that are sending
would be told so instead of the answer (RFC 9112, section 9.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_MOST_BYTES = 32 << 20
"""Most bytes that are thrown away."""


class LingeringTransport:
    """A transport whose first `close` only ends the answer, where a body is still coming. What
    comes then is to be thrown away; the client's end, too many bytes, or a second `close` closes
    it.

    is_coming: whether a body is
    """

    def __init__(self, transport: asyncio.Transport, is_coming: Callable[[], bool]) -> None:
        self._transport, self._is_coming = transport, is_coming
        self.is_lingering, self._num_bytes = False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """No further request is read."""
        return self.is_lingering or self._transport.is_closing()

    def close(self) -> None:
        """See asyncio.Transport.close."""
        if self.is_closing() or not self._is_coming():
            self._transport.close()
            return
        self.is_lingering = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def throw_away(self, data: bytes) -> None:
        """Take what has come behind the answer."""
        self._num_bytes += len(data)
        if self._num_bytes > _MOST_BYTES:
            self._transport.close()
