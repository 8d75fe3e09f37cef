"""Owns the answers that Ray's proxy makes itself: they are replaced by errors in the form of the
API that was asked."""

from __future__ import annotations

import logging
import uuid

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.server.app import error_body
from specguide.server.http.errors import ApiError

_PATHS_OF_RAY = "/-/"
_LOGGER = logging.getLogger(__name__)


def middlewares() -> list[Middleware]:
    """The middleware of Ray's proxy, which loads it by
    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH."""
    return [Middleware(ProxyAnswers)]


class ProxyAnswers:
    """ASGI middleware. Where there is no ingress, or no longer one, Ray's proxy answers with a
    text, raises or returns; clients get a 503 instead."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_PATHS_OF_RAY):
            await self._app(scope, receive, send)
            return
        has_begun = is_own = False

        async def pass_on(message: Message) -> None:
            nonlocal has_begun, is_own
            if message["type"] == "http.response.start":
                is_own = _is_own(message)
            if not is_own:
                has_begun = True
                await send(message)

        try:
            await self._app(scope, receive, pass_on)
        except Exception as error:
            if has_begun:
                raise
            _LOGGER.warning("%s has no answer: %s", scope["path"], error)
        if not has_begun:
            await _tell(scope, receive, send)


def _is_own(start: Message) -> bool:
    """Whether an answer is the proxy's own: it is an error as plain text, which ours never are."""
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return start["status"] >= 400 and kind.startswith("text/plain")


async def _tell(scope: Scope, receive: Receive, send: Send) -> None:
    error = ApiError(
        503,
        "the ingress, which passes requests on to replicas, is gone or has not started yet; try "
        "again",
        kind="server_error",
        code="ingress_lost",
    )
    response = error.response(error_body(scope["path"]))
    response.headers["x-request-id"] = Headers(scope=scope).get("x-request-id") or uuid.uuid4().hex
    await response(scope, receive, send)
