"""Owns the answers to errors that no route handles: refusals by middleware, and unforeseen
errors."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.server.http.errors import ApiError, ErrorWriter, Refusal
from specguide.server.http.request_log import log_refusal

_LOGGER = logging.getLogger(__name__)


class ErrorAnswers:
    """ASGI middleware. Answers the errors raised behind it, and logs the unforeseen ones. If an
    answer has begun already, the connection is closed.

    body_of: gives the form of errors for the requested path
    """

    def __init__(self, app: ASGIApp, body_of: Callable[[str], ErrorWriter]) -> None:
        self._app, self._body_of = app, body_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            if has_begun:
                raise
            refusal = error if isinstance(error, Refusal) else _unforeseen(scope)
            log_refusal(refusal.error)
            await refusal.response(self._body_of(scope["path"]))(scope, receive, send)


def _unforeseen(scope: Scope) -> Refusal:
    _LOGGER.exception("%s %s: unexpected error", scope["method"], scope["path"])
    return Refusal(ApiError.unforeseen(), closes=True)
