"""Owns the external names of requests: in headers, in logs, and in the ids of answers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Request
from pydantic import StringConstraints, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.request import EXTERNAL_ID

_MOST_CHARS = 128
_VALID = StringConstraints(pattern=f"^[!-~]{{1,{_MOST_CHARS}}}$")


def _checked(name: Any, validate: Callable[[Any], str]) -> str:
    try:
        return validate(name)
    except ValidationError:
        words = "Input should be 1 to {most} visible ASCII characters, without spaces"
        raise PydanticCustomError("request_id", words, {"most": _MOST_CHARS}) from None


RequestId = Annotated[str, _VALID, WrapValidator(_checked)]
"""A request's name in its body: visible ASCII characters, of limited number."""
REQUEST_ID = "x-request-id"


class RequestIds:
    """ASGI middleware. Gives every answer the header x-request-id: the request's own if it is
    valid, else its body's `request_id`, else a new one. The same id is in
    `request.state.request_id`, in the logs, and in the header request-id, which Anthropic's clients
    read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _name(scope, _own_id(scope) or uuid4().hex)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_id = scope["state"]["request_id"].encode()
                message["headers"] = [
                    *message.get("headers", ()),
                    (REQUEST_ID.encode(), request_id),
                    (b"request-id", request_id),
                ]
            await send(message)

        await self._app(scope, receive, named)


def take_name(request: Request, name: str | None) -> None:
    """Name a request as its body does, where its header does not, as in vLLM."""
    if name is not None and _own_id(request.scope) is None:
        _name(request.scope, name)


def answer_id(prefix: str) -> str:
    """The id of an answer to the request of this context. Several may have the same id, which is
    harmless: nothing is looked up by it."""
    return f"{prefix}-{EXTERNAL_ID.get() or secrets.token_hex(12)}"


def _own_id(scope: Scope) -> str | None:
    given = Headers(scope=scope).get(REQUEST_ID, "")
    is_plain = 0 < len(given) <= _MOST_CHARS and all("!" <= char <= "~" for char in given)
    return given if is_plain else None


def _name(scope: Scope, request_id: str) -> None:
    scope.setdefault("state", {})["request_id"] = request_id
    EXTERNAL_ID.set(request_id)
