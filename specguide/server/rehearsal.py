"""Owns the work that is done before an app is ready, so that no client waits for it. This work is
neither counted nor logged."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Message, Scope

from specguide.errors import SpecguideError
from specguide.server.apis import chat
from specguide.server.bodies.requests import ChatRequest
from specguide.server.http.errors import ApiError
from specguide.server.tasks.backend import Backend
from specguide.tokenizer.images import white_square


async def rehearse(app: FastAPI) -> None:
    """Do all work that an app would otherwise put off until its first request."""
    await rehearse_routes(app)
    rehearse_conversation(app.state.backend)


async def rehearse_routes(app: FastAPI) -> None:
    """Do the work that libraries put off until the first request, which would wait 0.1 s for it:
    building the routes, and loading the modules that stream an answer."""
    scope: Scope = {"type": "http", "method": "GET", "path": "/-", "headers": [], "app": app}
    with suppress(HTTPException):  # there is no such page
        await app.router(scope, _never_comes, _ignore)
    await StreamingResponse(_one_text())(scope, _never_comes, _ignore)


def rehearse_conversation(backend: Backend) -> None:
    """Do the work that is put off until the first conversation: compiling the chat template,
    searching all tokens for the longest one, and loading what reads images. Some templates refuse
    this conversation."""
    contents: list[Any] = ["Hello"]
    if backend.tokenizer.images is not None:
        file = io.BytesIO()
        white_square().save(file, "PNG")
        url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        contents.append([{"type": "image_url", "image_url": {"url": url}}])
    for content in contents:
        body = ChatRequest.model_validate({"messages": [{"role": "user", "content": content}]})
        with suppress(SpecguideError, ApiError):
            chat.parse(backend, body)


async def _never_comes() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def _ignore(_: Message) -> None:
    pass


async def _one_text() -> AsyncIterator[str]:
    yield ""
