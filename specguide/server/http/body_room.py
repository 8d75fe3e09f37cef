"""Owns the room for bodies: the bytes that all of them together may hold, and the choice of the one
that is refused when the room is full."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from specguide.server.http.errors import ApiError, Refusal

FREE_BYTES = 1 << 16
"""First bytes of each body that take no room: its connection buffers as many anyway, and small
requests never meet a full room."""


class HeldBody:
    """A body that is being received, or whose request is being processed.

    num_bytes: its bytes that take room
    is_whole:  its last byte has come; it is not refused any more
    refused:   done once it is refused, with the error for its client
    """

    def __init__(self) -> None:
        self.num_bytes, self.num_read, self.is_whole = 0, 0, False
        self.refused: asyncio.Future[Refusal] = asyncio.get_running_loop().create_future()


class BodyRoom:
    """Room for the bytes of all bodies. When it is full, the largest body that is still being
    received is refused.

    So bodies that come slowly delay only each other. Used only by one event loop's thread.

    closed_by: the reason why no body is accepted any more; None while they are
    """

    def __init__(self, max_bytes: int) -> None:
        self.closed_by: Refusal | None = None
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._bodies: set[HeldBody] = set()

    @contextmanager
    def body(self) -> Iterator[HeldBody]:
        """A context in which a body is in the room, unless `leave` is called before its end."""
        body = HeldBody()
        self._bodies.add(body)
        try:
            yield body
        finally:
            self.leave(body)

    def grow(self, body: HeldBody, num_bytes: int) -> None:
        """Add bytes that the body has received. This may cause a body to be refused, possibly this
        one."""
        if body not in self._bodies:
            return
        body.num_read += num_bytes
        num_more = max(0, body.num_read - FREE_BYTES) - body.num_bytes
        body.num_bytes += num_more
        self._num_bytes += num_more
        while num_more and self._num_bytes > self._max_bytes:
            self._refuse(max(self._unread(), key=lambda one: one.num_bytes), self._full())

    def leave(self, body: HeldBody) -> None:
        """Remove the body from the room."""
        if body in self._bodies:
            self._bodies.remove(body)
            self._num_bytes -= body.num_bytes

    def close(self, cause: ApiError) -> None:
        """Refuse the bodies that are being received, and all later ones."""
        self.closed_by = Refusal(cause, closes=True)
        for body in self._unread():
            self._refuse(body, self.closed_by)

    def _unread(self) -> list[HeldBody]:
        return [body for body in self._bodies if not body.is_whole]

    def _refuse(self, body: HeldBody, refusal: Refusal) -> None:
        body.refused.set_result(refusal)
        self.leave(body)

    def _full(self) -> Refusal:
        return Refusal(
            ApiError(
                503,
                f"the bodies of all requests together have more than {self._max_bytes} bytes, and "
                "this is the largest that is still being sent; try again later, or send it faster",
                kind="server_error",
                code="too_many_bodies",
            ),
            closes=True,
        )
