"""Random answers, rendered as streams and put together by the vendors' own clients: each equals the
answer that is not streamed."""

from __future__ import annotations

import asyncio
import importlib
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from specguide.params import SamplingParams
from specguide.request_records import RequestMetrics
from specguide.server.apis import anthropic as messages
from specguide.server.apis import chat
from specguide.server.apis.api import JsonObject, Renderer, lines
from specguide.server.apis.responses import responses
from specguide.server.bodies.requests import ChatRequest, ResponsesRequest
from specguide.server.tasks.events import Arguments, CallBegin, End, Event, Reasoned, Text, Tokens
from specguide.server.tasks.task import Task

USER = [{"role": "user", "content": "Hi"}]
ALPHABET = 'ab \n\r\t\\"{}[]:,\0\x85\u2028é漢😀'
WORDS = ("data: ", "event: end\n\n", "[DONE]", "</think>", "<tool_call>", "null")
HTTP = importlib.import_module(openai.DefaultHttpxClient.__base__.__module__.partition(".")[0])


def text(rng: random.Random, longest: int = 12) -> str:
    if rng.random() < 0.1:
        return rng.choice(WORDS)
    return "".join(rng.choices(ALPHABET, k=rng.randint(1, longest)))


def value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.randrange(6 if depth else 4)
    if kind < 4:
        return (None, rng.random(), rng.randint(-(10**9), 10**9), text(rng))[kind]
    some = [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return some if kind == 4 else {text(rng): one for one in some}


def pieces(rng: random.Random, whole: str) -> Iterator[str]:
    while whole:
        length = rng.randint(1, 8)
        yield whole[:length]
        whole = whole[length:]


def said(rng: random.Random, sample: int) -> Iterator[Event]:
    """The events of one sample: what it thinks, text and calls."""
    for _ in range(rng.choice((0, 3, 9))):
        yield Reasoned(text(rng), sample)
    num_calls = 0
    for _ in range(rng.randint(0, 4)):
        if rng.random() < 0.5:
            for _ in range(rng.randint(1, 9)):
                yield Text(text(rng), sample)
            continue
        arguments = {text(rng): value(rng) for _ in range(rng.randint(0, 4))}
        yield CallBegin(num_calls, f"tool_{rng.randint(0, 3)}", sample)
        written = json.dumps(arguments, ensure_ascii=rng.random() < 0.5)
        for piece in pieces(rng, written):
            yield Arguments(num_calls, piece, sample)
        num_calls += 1


def answer(rng: random.Random, num_samples: int = 1) -> list[Event]:
    """The events of samples that are written beside each other."""
    waiting = {sample: list(said(rng, sample)) for sample in range(num_samples)}
    events: list[Event] = []
    while waiting:
        sample = rng.choice(list(waiting))
        if waiting[sample]:
            events += [Tokens(1, sample, rng.randint(0, 1)), waiting[sample].pop(0)]
        else:
            del waiting[sample]
            metrics = RequestMetrics(num_cached=rng.randint(0, 3))
            events.append(End("stop", None, sample, metrics))
    return events


def wire(renderer: Renderer[Any], events: list[Event]) -> bytes:
    async def come() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def all_of_it() -> bytes:
        return b"".join([line async for line in lines(renderer, come())])

    return asyncio.run(all_of_it())


def answering(rng: random.Random, stream: bytes) -> Any:
    """A transport whose server answers with a stream, in packets of any size."""

    def packets() -> Iterator[bytes]:
        rest = stream
        while rest:
            length = rng.choice((1, 7, 100, 2000))
            yield rest[:length]
            rest = rest[length:]

    def handle(_: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return HTTP.Response(200, headers=headers, content=packets())

    return HTTP.MockTransport(handle)


def openai_client(rng: random.Random, stream: bytes) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(transport=answering(rng, stream))
    return openai.OpenAI(base_url="http://server/v1", api_key="k", http_client=http)


def through_chat(rng: random.Random) -> int:
    num_samples = rng.choice((1, 1, 3))
    events = answer(rng, num_samples)
    task = Task("small", ([1, 2],), SamplingParams(n=num_samples))
    options = {"include_usage": True}
    body = ChatRequest.model_validate({"messages": USER, "stream_options": options})
    renderer = chat.ChatRenderer(body, task)
    client = openai_client(rng, wire(renderer, events))
    with client.chat.completions.stream(model="small", messages=USER, n=num_samples) as stream:
        found = stream.get_final_completion().to_dict()
    whole = renderer.whole()
    assert found["usage"] == whole["usage"]
    for one, expected in zip(found["choices"], whole["choices"], strict=True):
        assert one["finish_reason"] == expected["finish_reason"]
        calls = [_call(call) for call in one["message"].get("tool_calls") or ()]
        assert calls == [_call(call) for call in expected["message"].get("tool_calls") or ()]
        for name in ("content", "reasoning_content", "reasoning"):
            assert (one["message"].get(name) or "") == (expected["message"].get(name) or "")
    return len(events) // 2


def _call(call: JsonObject) -> tuple[str, str, str]:
    return call["id"], call["function"]["name"], call["function"]["arguments"]


def through_responses(rng: random.Random) -> int:
    events = answer(rng)
    body = ResponsesRequest.model_validate({"input": "Hi"})
    renderer = responses.ResponseRenderer(body, Task("small", ([1, 2],), SamplingParams()))
    client = openai_client(rng, wire(renderer, events))
    thoughts: dict[int, str] = {}
    written: dict[int, str] = {}
    done: dict[int, JsonObject] = {}
    with client.responses.stream(model="small", input="Hi") as stream:
        for number, event in enumerate(stream):
            assert event.sequence_number == number
            if event.type == "response.reasoning_text.delta":
                thoughts[event.output_index] = thoughts.get(event.output_index, "") + event.delta
            elif hasattr(event, "snapshot"):
                written[event.output_index] = event.snapshot
            elif event.type == "response.output_item.done":
                done[event.output_index] = event.item.to_dict()
        final = stream.get_final_response()
    whole = renderer.whole()["output"]
    assert [done[index] for index in range(len(whole))] == whole
    for index, (item, last) in enumerate(zip(whole, final.to_dict()["output"], strict=True)):
        assert item.items() <= last.items() or item["type"] == "message"
        if item["type"] == "function_call":
            assert written[index] == item["arguments"]
        elif item["type"] == "message":
            assert written.get(index, "") == item["content"][0]["text"]
            assert last["content"][0]["text"] == item["content"][0]["text"]
        else:
            assert thoughts[index] == item["content"][0]["text"]
    return len(events) // 2


def through_messages(rng: random.Random) -> int:
    events = answer(rng)
    body = messages.MessagesRequest.model_validate({"messages": USER, "max_tokens": 9})
    renderer = messages.MessageRenderer(body, Task("small", ([1, 2],), SamplingParams()))
    http = anthropic.DefaultHttpxClient(transport=answering(rng, wire(renderer, events)))
    client = anthropic.Anthropic(base_url="http://server", api_key="k", http_client=http)
    with client.messages.stream(model="small", messages=USER, max_tokens=9) as stream:
        found = stream.get_final_message().to_dict()
    whole = renderer.whole()
    assert [_plain(block) for block in found["content"]] == whole["content"]
    for name in ("id", "role", "stop_reason", "stop_sequence", "usage"):
        assert found.get(name) == whole[name]
    return len(events) // 2


def _plain(block: JsonObject) -> JsonObject:
    """A block without what the client adds of its own."""
    return {name: one for name, one in block.items() if one is not None and name != "parsed_output"}


@pytest.mark.parametrize("through", [through_chat, through_responses, through_messages])
def test_a_stream_put_together_is_the_answer(through: Callable[[random.Random], int]) -> None:
    rng = random.Random(3)
    assert sum(through(rng) for _ in range(12)) > 200
