"""Owns the seam at which an API is added: parse(body) → task, run(task) → events, render(events) →
answer as sent."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from specguide.server.apis.event_stream import EventStream
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
"""Headers that make a proxy pass each event on as it comes; the second is nginx's."""
B = TypeVar("B", bound=GeneratingBody)
_JSON = msgspec.json.Encoder()
_LOGGER = logging.getLogger(__name__)


class Renderer(ABC, Generic[B]):
    """Writes a task's events in the form of its API: as a stream of the objects that its methods
    return, or as a whole answer.

    body, task:  the request's body, and the task parsed from it
    usage:       tokens so far
    names_lines: each object of a stream has a line with the event's name before it, which is the
                 object's "type"
    last_line:   bytes that end a stream
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
        """The objects that an event adds. Called for each event in order; callers consume all of
        it."""

    def end(self) -> Iterable[JsonObject]:
        """The objects after the last event."""
        return ()

    def failed(self, error: ApiError) -> Iterable[JsonObject]:
        """The objects that replace the rest of the stream."""
        return (error.body(),)

    @abstractmethod
    def whole(self) -> JsonObject:
        """The answer that is not streamed, once all events have been taken."""


@dataclass(eq=False)
class PassedStream:
    """A stream of a server in another process, seen by the process that passes it on. It writes the
    error for the client where that server is gone.

    error_body, names_lines, last_line: see Api and Renderer
    """

    error_body: ErrorWriter = ApiError.body
    names_lines: bool = False
    last_line: bytes = b""

    def take(self, piece: bytes) -> None:
        """Take the next piece of it, which has whole events only."""

    def failed(self, error: ApiError) -> Iterable[JsonObject]:
        """The objects that replace the rest of the stream."""
        return (self.error_body(error),)

    def end(self, error: ApiError) -> bytes:
        """The bytes that replace the rest of the stream."""
        objects = (_line(one, self.names_lines) for one in self.failed(error))
        return b"".join(objects) + self.last_line


@dataclass(frozen=True)
class Api(Generic[B]):
    """An API of a vendor: one file or folder of this room, and an entry in `app.APIS`.

    path:       path of its route, to which bodies are posted
    about:      what it does, for the documentation of the routes
    body:       the class of its request bodies
    parse:      makes the task of a body. Runs in a thread, since a schema or a prompt may be long.
                Raises ApiError and UserError, which name the field
    renderer:   made of a body and its task, in the same thread
    error_body: the form of an error where no stream has begun
    error:      the form in which errors are documented
    passed:     state of a stream that another process sends, which an error in it needs
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
        """A new stream that is passed on."""
        return self.passed(self.error_body, self.renderer.names_lines, self.renderer.last_line)

    def prepare(self, backend: Backend, body: B) -> tuple[Task, Renderer[B]]:
        """The first stage, and the renderer for the third. Raises what `parse` does."""
        task = self.parse(backend, body)
        return task, self.renderer(body, task)

    async def answer(self, body: B, request: Request) -> Response:
        """All three stages. Raises ApiError and UserError as long as nothing has been sent."""
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
            failed = self.passed_stream().end
            return EventStream(beginning, {**STREAM_HEADERS, **headers}, failed)
        return JSONResponse(await unless_left(request, whole()), headers=headers)


def check_not_aborted(end: End) -> None:
    """Raises ApiError for an answer that was cut off by the server's stop, where an API has no
    finish reason for that."""
    if end.finish_reason == "abort":
        raise ApiError.shutting_down()


async def rendered(renderer: Renderer[Any], events: AsyncIterator[Event]) -> JsonObject:
    """The answer as a whole. Raises ApiError."""
    async for event in events:
        renderer.usage.take(event)
        for _ in renderer.take(event):
            pass
    return renderer.whole()


async def stream_objects(
    renderer: Renderer[Any], events: AsyncIterator[Event]
) -> AsyncIterator[JsonObject]:
    """The answer as the objects of a stream. An error ends it."""
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
    async for one in stream_objects(renderer, events):
        yield _line(one, renderer.names_lines)
    if renderer.last_line:
        yield renderer.last_line


def _line(one: JsonObject, names_lines: bool) -> bytes:
    has_name = names_lines and "type" in one
    name = b"event: %b\n" % one["type"].encode() if has_name else b""
    return name + b"data: %b\n\n" % _JSON.encode(one)
