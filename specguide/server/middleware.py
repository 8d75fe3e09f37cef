"""Owns what stands before the application: who may ask, and how much of a body is ever read."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.server.errors import ApiError

OPEN_PATHS = ("/health", "/ready", "/metrics", "/docs", "/openapi.json", "/", "/playground/playground.css",
              "/playground/playground.js", "/playground/tokens.js", "/playground/timeline.js")


class ApiKeys:
    """ASGI middleware. Answers 401 to requests without one of the keys, but for OPEN_PATHS."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app, self._keys = app, [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"").removeprefix(b"Bearer ")
            if not any(hmac.compare_digest(given, key) for key in self._keys):
                error = ApiError(401, "the API key is missing or wrong: send it as Authorization: Bearer …",
                                 kind="authentication_error", code="invalid_api_key")
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyLimit:
    """ASGI middleware. Answers 413 as soon as a body is known to be larger."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes
        self._words = f"the body is larger than {max_bytes} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        if stated.isdigit() and int(stated) > self._max_bytes:
            await ApiError(413, self._words).response()(scope, receive, send)
            return
        num_read = 0

        async def limited() -> Message:
            nonlocal num_read
            message = await receive()
            num_read += len(message.get("body", b""))
            if num_read > self._max_bytes:
                raise HTTPException(413, self._words)  # the one kind that FastAPI lets through
            return message

        await self._app(scope, limited, send)
