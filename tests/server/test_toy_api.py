"""An API of another vendor, added from here alone: a body, a parser, and a renderer of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from specguide.params import SamplingParams
from specguide.server.apis.api import Api, JsonObject, Renderer, lines, rendered
from specguide.server.bodies.shared_fields import GeneratingBody
from specguide.server.http.errors import ApiError
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import End, Event, Text, Tokens
from specguide.server.tasks.task import Task


class Body(GeneratingBody):
    words: str


def parse(_: Backend | None, body: Body) -> Task:
    return Task(body.model or "toy", (list(map(ord, body.words)),), SamplingParams())


class Counting(Renderer[Body]):
    """A renderer that tells characters."""

    names_lines = True
    last_line = b"over\n"

    def __init__(self, body: Body, task: Task) -> None:
        super().__init__(body, task)
        self._num_chars = 0

    def begin(self) -> Iterator[JsonObject]:
        yield {"type": "asked", "tokens": self.usage.num_prompt}

    def take(self, event: Event) -> Iterator[JsonObject]:
        if isinstance(event, Text):
            self._num_chars += len(event.text)
            yield {"type": "more", "chars": self._num_chars}

    def end(self) -> Iterator[JsonObject]:
        yield self.whole()

    def whole(self) -> JsonObject:
        return {"type": "all", "chars": self._num_chars, "tokens": self.usage.num_output}


TOY = Api("/toy", "Counts.", Body, parse, Counting)
EVENTS = [Tokens(2), Text("Hel"), Tokens(1), Text("lo"), End("stop")]


async def come(*, fails: bool = False) -> AsyncIterator[Event]:
    for event in EVENTS:
        yield event
    if fails:
        raise ApiError(408, "too slow")


def prepared(api: Api[Body]) -> Renderer[Body]:
    _, renderer = api.prepare(None, Body(model="toy", words="Hi!"))  # type: ignore[arg-type]
    return renderer


def streamed(api: Api[Body], *, fails: bool = False) -> list[bytes]:
    async def all_of_them() -> list[bytes]:
        return [line async for line in lines(prepared(api), come(fails=fails))]

    return asyncio.run(all_of_them())


def test_a_toy_api_answers_as_a_whole_and_in_pieces() -> None:
    whole = asyncio.run(rendered(prepared(TOY), come()))
    assert whole == {"type": "all", "chars": 5, "tokens": 3}
    *found, last = streamed(TOY)
    names, datas = zip(*(line.decode().strip().split("\ndata: ") for line in found), strict=True)
    assert names == ("event: asked", "event: more", "event: more", "event: all")
    told = [json.loads(data) for data in datas]
    assert told[0] == {"type": "asked", "tokens": 3} and told[-1] == whole and last == b"over\n"


def test_an_error_of_a_stream_ends_it() -> None:
    class Named(Counting):
        def failed(self, error: ApiError) -> Iterator[JsonObject]:
            yield {"type": "error", "words": str(error)}

    toy = Api("/toy", "Counts.", Body, parse, Named)
    assert b"too slow" in streamed(toy, fails=True)[-2]
    with pytest.raises(ApiError, match="too slow"):
        asyncio.run(rendered(prepared(toy), come(fails=True)))
