"""Owns the messages between ingress and replica: a request, and the pieces of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from specguide.serve_ray.routing import RoutingKey

_FORWARDED = (
    "method",
    "path",
    "raw_path",
    "query_string",
    "root_path",
    "headers",
    "client",
    "server",
    "scheme",
    "http_version",
)


@dataclass(frozen=True)
class ForwardedRequest:
    """An HTTP request with its whole body. scope: the part of ASGI's scope that can be sent; key:
    for the choice of a replica"""

    scope: dict[str, Any]
    body: bytes
    key: RoutingKey = field(default_factory=RoutingKey)

    @classmethod
    def of(cls, scope: Scope, body: bytes, key: RoutingKey) -> ForwardedRequest:
        """The request for which an ASGI application was called."""
        return cls({name: scope[name] for name in _FORWARDED if name in scope}, body, key)


@dataclass(frozen=True)
class AnswerHead:
    """The head of an answer. headers: in ASGI's form"""

    status: int
    headers: list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class AnswerBody:
    """A piece of an answer's body. is_whole: it is the last one"""

    piece: bytes
    is_whole: bool = False


@dataclass(frozen=True)
class NotTaken:
    """Sent in place of an answer: the replica is ending, and another one may be asked."""


AnswerPiece = AnswerHead | AnswerBody | NotTaken
"""The parts of an answer: its head, then its body piece by piece."""


async def answer(app: ASGIApp, request: ForwardedRequest) -> AsyncIterator[AnswerPiece]:
    """The application's answer. Pieces of the body that come while the reader is busy are joined.
    The request is cancelled when the reader leaves."""
    sent: asyncio.Queue[Message | None] = asyncio.Queue()
    task = asyncio.create_task(_call(app, request, sent))
    try:
        while (message := await sent.get()) is not None:
            if message["type"] == "http.response.start":
                headers = [(*pair,) for pair in message["headers"] if pair[0] != b"x-request-id"]
                yield AnswerHead(message["status"], headers)  # Ray's proxy adds that one
            else:
                yield _joined(message, sent)
        await task
    finally:
        task.cancel()


async def _call(
    app: ASGIApp, request: ForwardedRequest, sent: asyncio.Queue[Message | None]
) -> None:
    """Call an application and put what it sends into `sent`, and None behind the last message."""
    unread: list[Message] = [
        {"type": "http.request", "body": request.body, "more_body": False},
    ]

    async def receive() -> Message:
        if unread:
            return unread.pop()
        await asyncio.Event().wait()  # where a client leaves, this task is cancelled
        raise AssertionError

    scope = {
        **request.scope,
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "state": {},
    }
    try:
        await app(scope, receive, sent.put)
    finally:
        sent.put_nowait(None)


def _joined(first: Message, sent: asyncio.Queue[Message | None]) -> AnswerBody:
    """The bytes of the body in `first` and in the messages that wait behind it."""
    pieces = [first.get("body", b"")]
    more = first.get("more_body", False)
    while more and not sent.empty():
        message = sent.get_nowait()
        if message is None:
            sent.put_nowait(None)
            break
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return AnswerBody(b"".join(pieces), is_whole=not more)
