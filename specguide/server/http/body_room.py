"""Owns the room for bodies: how many bytes all of them together may hold, and which one gives way
when it is full."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from specguide.server.http.errors import ApiError, Refusal

FREE_BYTES = 1 << 16
"""First bytes of each body that take no room: its connection holds as many anyway, and small
requests never meet a full room."""


class HeldBody:
    """A body that is being read, or whose request is being worked on.

    num_bytes: of it that take room
    is_whole:  its last byte is there; it does not give way any more
    refused:   done once it must give way, with what its client is told
    """

    def __init__(self) -> None:
        self.num_bytes, self.num_read, self.is_whole = 0, 0, False
        self.refused: asyncio.Future[Refusal] = asyncio.get_running_loop().create_future()


class BodyRoom:
    """Room for the bytes of all bodies. Where there is too little, the largest one that is still on
    its way gives way.

    So bodies that come slowly hold up nobody but each other. Of one event loop's thread alone.

    closed_by: why no body is taken any more; None while they are
    """

    def __init__(self, max_bytes: int) -> None:
        self.closed_by: Refusal | None = None
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._bodies: set[HeldBody] = set()

    @contextmanager
    def body(self) -> Iterator[HeldBody]:
        """A body, which is in the room until this is left, or `leave` is called."""
        body = HeldBody()
        self._bodies.add(body)
        try:
            yield body
        finally:
            self.leave(body)

    def grow(self, body: HeldBody, num_bytes: int) -> None:
        """The body has got so many bytes more; one of all bodies may be refused for it, itself
        included."""
        if body not in self._bodies:
            return
        body.num_read += num_bytes
        num_more = max(0, body.num_read - FREE_BYTES) - body.num_bytes
        body.num_bytes += num_more
        self._num_bytes += num_more
        while num_more and self._num_bytes > self._max_bytes:
            self._refuse(max(self._unread(), key=lambda one: one.num_bytes), self._full())

    def leave(self, body: HeldBody) -> None:
        """The body is not held any more."""
        if body in self._bodies:
            self._bodies.remove(body)
            self._num_bytes -= body.num_bytes

    def close(self, cause: ApiError) -> None:
        """Refuse those that are on their way, and all that are yet to come."""
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
