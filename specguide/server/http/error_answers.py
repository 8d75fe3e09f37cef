"""Owns what is answered where no route does: to what middleware refuses, and to errors that nobody
foresaw."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.server.http.errors import ApiError, ErrorWriter, Refusal
from specguide.server.http.request_log import log_refusal

_LOGGER = logging.getLogger(__name__)


class ErrorAnswers:
    """ASGI middleware. Answers what those behind it raise, and logs what nobody foresaw. An answer
    that has begun ends with its connection.

    body_of: by the path that was asked
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
