"""Owns what stands before the application: who may ask, and how much of a body is ever read, and how long."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.server.errors import ApiError, Refusal

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
                await error.response(closes=True)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyLimit:
    """ASGI middleware. Answers 413 as soon as a body is known to be larger, 408 when it is not there in time, and 415
    for one that is compressed; the connection ends with the answer, since the rest of the body may yet come."""

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float) -> None:
        self._app, self._max_bytes, self._timeout_s = app, max_bytes, timeout_s
        self._too_large = ApiError(413, f"the body is larger than {max_bytes} bytes")
        self._too_slow = ApiError(408, f"the body was not there after {timeout_s:g} s", kind="timeout_error",
                                  code="body_timeout")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(dict(scope["headers"]))
        if refusal is not None:
            await refusal.response(closes=True)(scope, receive, send)
            return
        deadline_s = asyncio.get_running_loop().time() + self._timeout_s
        num_read, has_all = 0, False

        async def limited() -> Message:
            nonlocal num_read, has_all
            if has_all:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline_s - asyncio.get_running_loop().time())
            except asyncio.TimeoutError:
                raise Refusal(self._too_slow, closes=True) from None
            num_read += len(message.get("body", b""))
            has_all = not message.get("more_body", False)
            if num_read > self._max_bytes:
                raise Refusal(self._too_large, closes=True)
            return message

        await self._app(scope, limited, send)

    def _refusal(self, headers: dict[bytes, bytes]) -> ApiError | None:
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        if coding != b"identity":
            return ApiError(415, f"a body with Content-Encoding {coding.decode('latin-1')!r} is not read; send it as "
                                 "it is")
        stated = headers.get(b"content-length", b"0")
        return self._too_large if stated.isdigit() and int(stated) > self._max_bytes else None
