"""Owns the seam at which an API is added: parse(body) → task, run(task) → events, render(events) →
wire."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from specguide.server.bodies.ignored import ignored_header
from specguide.server.bodies.shared_fields import GeneratingBody
from specguide.server.http.clients import client_of
from specguide.server.http.errors import ApiError, ErrorBody, ErrorWriter
from specguide.server.http.request_ids import take_name
from specguide.server.running.run import run
from specguide.server.tasks.backend import Backend, unless_left
from specguide.server.tasks.events import End, Event
from specguide.server.tasks.task import Task, Usage

JsonObject = dict[str, Any]
"""A JSON object of the API: an answer, or an event of a stream."""
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""With these a proxy passes each event on as it comes; the second is nginx's."""
B = TypeVar("B", bound=GeneratingBody)
_JSON = msgspec.json.Encoder()
_LOGGER = logging.getLogger(__name__)


class Renderer(ABC, Generic[B]):
    """Tells a client of a task what happens, in the words of its API: as a stream of what its
    methods return, or as a whole.

    body, task:  what was asked, and what it was understood as
    usage:       tokens so far
    names_lines: lines of a stream have their object's "type" as the event's name
    last_line:   of a stream
    """

    names_lines: ClassVar[bool] = False
    last_line: ClassVar[bytes] = b""

    def __init__(self, body: B, task: Task) -> None:
        self.body, self.task = body, task
        self.usage = Usage(task)

    def begin(self) -> Iterable[JsonObject]:
        """The objects before the first event."""
        return ()

    @abstractmethod
    def take(self, event: Event) -> Iterable[JsonObject]:
        """What an event adds. Called for each in order, and read to its end."""

    def end(self) -> Iterable[JsonObject]:
        """The objects after the last event."""
        return ()

    def failed(self, error: ApiError) -> Iterable[JsonObject]:
        """The objects in place of what is left of the stream."""
        return (error.body(),)

    @abstractmethod
    def whole(self) -> JsonObject:
        """The answer that is not streamed, once all events have been taken."""


@dataclass(eq=False)
class PassedStream:
    """A stream that a server in another process tells, as whoever passes it on sees it; to tell its
    client where that server is gone.

    error_body, names_lines, last_line: as of Api and Renderer
    """

    error_body: ErrorWriter = ApiError.body
    names_lines: bool = False
    last_line: bytes = b""

    def take(self, piece: bytes) -> None:
        """More of it, in whole events."""

    def failed(self, error: ApiError) -> Iterable[JsonObject]:
        """In place of what is left of it."""
        return (self.error_body(error),)

    def end(self, error: ApiError) -> bytes:
        """The same as it is sent."""
        told = (_line(one, self.names_lines) for one in self.failed(error))
        return b"".join(told) + self.last_line


@dataclass(frozen=True)
class Api(Generic[B]):
    """An API of a vendor: one file or folder of this room, and an entry in `app.APIS`.

    path:       of its route, to which bodies are posted
    about:      what it is, for the documentation of the routes
    body:       its fields
    parse:      what a body asks for. Runs in a thread, since a schema or a prompt may be long.
                Raises ApiError and UserError, which name the field
    renderer:   of body and task; made in the same thread
    error_body: what an error is on the wire where no stream has begun
    error:      as what that is documented
    passed:     what is kept of a stream to tell an error in it, where another process has told it
    """

    path: str
    about: str
    body: type[B]
    parse: Callable[[Backend, B], Task]
    renderer: type[Renderer[B]]
    error_body: ErrorWriter = ApiError.body
    error: type[BaseModel] = ErrorBody
    passed: type[PassedStream] = PassedStream

    def passed_stream(self) -> PassedStream:
        """A stream that begins."""
        return self.passed(self.error_body, self.renderer.names_lines, self.renderer.last_line)

    def prepare(self, backend: Backend, body: B) -> tuple[Task, Renderer[B]]:
        """The first stage, and who will do the third. Raises what `parse` does."""
        task = self.parse(backend, body)
        return task, self.renderer(body, task)

    async def answer(self, body: B, request: Request) -> Response:
        """All three stages. Raises ApiError and UserError while nothing has been sent."""
        backend: Backend = request.app.state.backend
        take_name(request, getattr(body, "request_id", None))
        num_bytes = len(await request.body())
        client = client_of(request, backend.config)

        async def begun() -> tuple[Renderer[B], AsyncIterator[Event]]:
            task, renderer = await backend.understood(num_bytes, self.prepare, body)
            return renderer, await run(backend, task, client)

        async def whole() -> JsonObject:
            return await rendered(*await begun())

        async def streamed() -> AsyncIterator[bytes]:
            return lines(*await begun())

        headers = ignored_header(body)
        if body.stream:
            beginning = asyncio.ensure_future(streamed())
            await asyncio.sleep(0)  # the engine has it before the answer is made ready
            return EventStream(beginning, {**STREAM_HEADERS, **headers})
        return JSONResponse(await unless_left(request, whole()), headers=headers)


class EventStream(StreamingResponse):
    """Server-sent events. Nothing is sent before they have begun: what is wrong until then is
    raised, and has a status of its own."""

    media_type = "text/event-stream"

    def __init__(
        self, beginning: asyncio.Future[AsyncIterator[bytes]], headers: dict[str, str]
    ) -> None:
        super().__init__((), headers=headers)
        self._beginning, self._has_begun = beginning, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError for nobody where the client leaves before they have begun."""
        await super().__call__(scope, receive, send)
        if not self._has_begun:
            raise ApiError.client_left()

    async def stream_response(self, send: Send) -> None:
        """As StreamingResponse's."""
        self.body_iterator = await self._beginning
        self._has_begun = True
        await super().stream_response(send)


def check_not_aborted(end: End) -> None:
    """Raises ApiError for an answer that the server's stop has cut off, where an API has no word
    for that."""
    if end.finish_reason == "abort":
        raise ApiError.shutting_down()


async def rendered(renderer: Renderer[Any], events: AsyncIterator[Event]) -> JsonObject:
    """The answer as a whole. Raises ApiError."""
    async for event in events:
        renderer.usage.take(event)
        for _ in renderer.take(event):
            pass
    return renderer.whole()


async def told(renderer: Renderer[Any], events: AsyncIterator[Event]) -> AsyncIterator[JsonObject]:
    """The answer as the objects of a stream. An error is the last of them."""
    try:
        for one in renderer.begin():
            yield one
        async for event in events:
            renderer.usage.take(event)
            for one in renderer.take(event):
                yield one
        for one in renderer.end():
            yield one
    except Exception as cause:
        if not isinstance(cause, ApiError):
            _LOGGER.exception("a stream has ended with an unexpected error")
        error = cause if isinstance(cause, ApiError) else ApiError.unforeseen()
        for one in renderer.failed(error):
            yield one


async def lines(renderer: Renderer[Any], events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """The answer as server-sent events."""
    async for one in told(renderer, events):
        yield _line(one, renderer.names_lines)
    if renderer.last_line:
        yield renderer.last_line


def _line(one: JsonObject, names_lines: bool) -> bytes:
    has_name = names_lines and "type" in one
    name = b"event: %b\n" % one["type"].encode() if has_name else b""
    return name + b"data: %b\n\n" % _JSON.encode(one)
