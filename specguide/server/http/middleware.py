"""Owns the checks before the application: API keys, the size and time limits of bodies, and the end
of cancelled requests. Refused requests raise Refusal."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Collection, Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.server.config import Exposure
from specguide.server.http.body_room import BodyRoom, HeldBody
from specguide.server.http.clients import api_key
from specguide.server.http.errors import ApiError, Refusal


def cors(exposure: Exposure) -> dict[str, Any]:
    """Arguments of starlette's CORSMiddleware: web pages of the allowed origins may send requests,
    with any header."""
    return {
        "allow_origins": list(exposure.allowed_origins),
        "allow_credentials": exposure.allow_credentials,
        "allow_methods": ["GET", "POST"],
        "allow_headers": ["*"],
        "expose_headers": ["x-request-id", "x-specguide-ignored", "retry-after"],
    }


class Cancellable:
    """ASGI middleware. Ends a request that is cancelled, such as one that outlives the server's
    stop.

    It is the outermost to see the cancellation, which uvicorn would report as an application's
    error.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self._app(scope, receive, send)


class RootPath:
    """ASGI middleware. Puts the application under a path, whether or not a proxy has stripped
    it."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app, self._root_path = app, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._root_path:
            if scope["path"] == self._root_path:  # links of the page at it are relative
                return await RedirectResponse(f"{self._root_path}/")(scope, receive, send)
            scope["root_path"] = self._root_path
            if not scope["path"].startswith(f"{self._root_path}/"):
                scope["path"] = self._root_path + scope["path"]
        await self._app(scope, receive, send)


class HeadRequests:
    """ASGI middleware. Answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def bodiless(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, bodiless)


class ApiKeys:
    """ASGI middleware. Refuses requests without a valid API key with 401, except for open paths."""

    def __init__(self, app: ASGIApp, keys: Sequence[str], open_paths: Collection[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_closed(scope):
            given = api_key(Headers(scope=scope)).encode()
            if not any(hmac.compare_digest(given, key) for key in self._keys):
                error = ApiError(
                    401,
                    "the API key is missing or wrong: send it as Authorization: Bearer … or as "
                    "x-api-key",
                    kind="authentication_error",
                    code="invalid_api_key",
                )
                raise Refusal(error, closes=True)
        await self._app(scope, receive, send)

    def _is_closed(self, scope: Scope) -> bool:
        return scope["path"].removeprefix(scope.get("root_path", "")) not in self._open_paths


class BodyLimit:
    """ASGI middleware. Refuses a body with 413 as soon as it is known to be too large, with 408
    when it is not complete in time, with 415 if it is compressed, and with 503 where there is no
    room for it. The connection closes after the answer, since the rest of the body may still
    come."""

    def __init__(self, app: ASGIApp, room: BodyRoom, max_bytes: int, timeout_s: float) -> None:
        self._app, self._room, self._max_bytes, self._timeout_s = app, room, max_bytes, timeout_s
        self._too_large = ApiError(
            413,
            f"the body is larger than {max_bytes} bytes; send less, or start the server with a "
            "larger --max-body-bytes",
        )
        self._too_slow = ApiError(
            408,
            f"the body did not arrive within {timeout_s:g} s",
            kind="timeout_error",
            code="body_timeout",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._room.closed_by is not None and scope["method"] not in ("GET", "HEAD"):
            raise self._room.closed_by
        refusal = self._refusal(dict(scope["headers"]))
        if refusal is not None:
            raise Refusal(refusal, closes=True)
        with self._room.body() as body:
            await self._app(scope, *self._limited(body, receive, send))

    def _limited(self, body: HeldBody, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """`receive`, which ends with the body, and `send`, which gives its room back once the
        answer begins."""
        deadline_s = asyncio.get_running_loop().time() + self._timeout_s

        async def limited() -> Message:
            if body.is_whole:
                return await receive()
            message = await self._unless_refused(body, receive, deadline_s)
            self._room.grow(body, len(message.get("body", b"")))
            if body.num_read > self._max_bytes:
                raise Refusal(self._too_large, closes=True)
            if body.refused.done():
                raise body.refused.result()
            body.is_whole = not message.get("more_body", False)
            return message

        async def begun(message: Message) -> None:
            self._room.leave(body)
            await send(message)

        return limited, begun

    async def _unless_refused(self, body: HeldBody, receive: Receive, deadline_s: float) -> Message:
        receiving = asyncio.ensure_future(receive())
        waiting_s = deadline_s - asyncio.get_running_loop().time()
        try:
            await asyncio.wait(
                (receiving, body.refused), timeout=waiting_s, return_when=asyncio.FIRST_COMPLETED
            )
            if body.refused.done():
                raise body.refused.result()
            if not receiving.done():
                raise Refusal(self._too_slow, closes=True)
            return receiving.result()
        finally:
            receiving.cancel()

    def _refusal(self, headers: dict[bytes, bytes]) -> ApiError | None:
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        if coding != b"identity":
            return ApiError(
                415,
                f"Content-Encoding {coding.decode('latin-1')!r} is not supported; send the body "
                "uncompressed",
            )
        stated = headers.get(b"content-length", b"0")
        return self._too_large if stated.isdigit() and int(stated) > self._max_bytes else None
