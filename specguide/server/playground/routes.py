"""Owns the playground's routes: the page with its files, and the stream that it reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, StreamingResponse

from specguide.engine import RequestDelta, ServedEngine
from specguide.errors import InvalidParams, SpecguideError
from specguide.guide.ready_grammars import MARK, ready_grammars
from specguide.server.apis.api import STREAM_HEADERS
from specguide.server.apis.chat import parse
from specguide.server.bodies.requests import ChatRequest
from specguide.server.http.clients import client_of
from specguide.server.http.errors import ApiError
from specguide.server.http.json_body import BodyRoute
from specguide.server.playground.events import Narrator
from specguide.server.running.run import begun
from specguide.server.tasks.backend import Backend, unless_left
from specguide.server.tasks.task import Task

_PAGE = Path(__file__).parent / "page"
_PARTS = {
    "playground.css": "text/css",
    "playground.js": "text/javascript",
    "tokens.js": "text/javascript",
    "timeline.js": "text/javascript",
}
PLAYGROUND_PATHS = ("/", *(f"/playground/{name}" for name in _PARTS))
"""Paths of the page itself."""
_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
        "data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
}

router = APIRouter(route_class=BodyRoute, include_in_schema=False)


@router.get("/")
async def page() -> FileResponse:
    """The page."""
    return FileResponse(_PAGE / "index.html", headers=_HEADERS)


@router.get("/playground/ready-grammars")
async def presets() -> list[dict[str, str]]:
    """The ready grammars that a request may name."""
    return [
        {"name": MARK + one.name, "about": one.about, "sample": one.samples("valid")[0]}
        for one in ready_grammars().values()
    ]


@router.get("/playground/{name}")
async def part(name: str) -> FileResponse:
    """A style sheet or a script of the page."""
    if name not in _PARTS:
        raise ApiError(404, f"the playground has no {name}; its parts are {', '.join(_PARTS)}")
    return FileResponse(_PAGE / name, media_type=_PARTS[name], headers=_HEADERS)


@router.post("/playground/generate")
async def generate(body: ChatRequest, request: Request) -> StreamingResponse:
    """Answer a conversation as /v1/chat/completions does, always streamed, and tell how each token
    was generated."""
    backend: Backend = request.app.state.backend
    task = await backend.understood(len(await request.body()), _task, body)
    client = client_of(request, backend.config)
    stream = backend.engine.generate(
        task.prompts[0], task.params, priority=task.priority, client=client
    )
    deltas = await unless_left(request, begun(stream, task))
    return StreamingResponse(
        _lines(backend.engine, Narrator(backend, task), deltas),
        media_type="text/event-stream",
        headers=STREAM_HEADERS,
    )


def _task(backend: Backend, body: ChatRequest) -> Task:
    """The task of a body. Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    if body.n not in (None, 1):
        raise InvalidParams("the playground shows one sample: leave n out", param="n")
    if body.logprobs:
        raise InvalidParams(
            "the playground shows no log-probabilities: leave logprobs out", param="logprobs"
        )
    task = parse(backend, body)
    return replace(task, params=replace(task.params, return_drafts=True))


async def _lines(
    engine: ServedEngine, narrator: Narrator, deltas: AsyncIterator[RequestDelta]
) -> AsyncIterator[str]:
    """Server-sent events, the last of them "[DONE]"; an error is an event. For a traced engine one
    event has its timeline."""

    def line(event: object) -> str:
        return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"

    try:
        yield line(narrator.start())
        async for delta in deltas:
            yield line(await asyncio.to_thread(narrator.delta, delta))
        if engine.config.trace:
            yield line(narrator.spans(await engine.spans()))
    except ApiError as error:
        yield line(error.body())
    except SpecguideError as error:
        yield line(ApiError.of(error).body())
    yield "data: [DONE]\n\n"
