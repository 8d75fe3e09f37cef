"""/v1/responses, live on the shipped model, driven by OpenAI's own client; and what is read of its
input."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

import jsonschema
import pytest
from live_server import ask_and_leave
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from response_bodies import INPUT, WEATHER

from specguide.params import SamplingParams
from specguide.server.apis.api import stream_objects
from specguide.server.apis.responses.responses import ResponseRenderer
from specguide.server.bodies.requests import ResponsesRequest
from specguide.server.http.errors import ApiError
from specguide.server.tasks.events import Text
from specguide.server.tasks.task import Task

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


TIME = {
    "type": "function",
    "name": "get_time",
    "parameters": {
        "type": "object",
        "properties": {"zone": {"enum": ["UTC", "CET"]}},
        "required": ["zone"],
        "additionalProperties": False,
    },
}


ASKED = {
    "model": "small",
    "input": "What is the weather in Paris?",
    "temperature": 0,
    "max_output_tokens": 120,
}


class Person(BaseModel):
    name: str
    age: int


def test_a_text_with_a_schema(client):
    done = client.responses.create(
        model="small",
        input=INPUT,
        temperature=0,
        metadata={"a": "b"},
        text={
            "format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}
        },
    )
    assert json.loads(done.output_text) == {"name": "Anna", "age": 31}
    assert done.status == "completed" and done.error is None and done.incomplete_details is None
    assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens > 0
    assert (
        done.metadata == {"a": "b"} and done.text.format.schema_ == PERSON and done.store is False
    )
    chat = client.chat.completions.create(
        model="small",
        temperature=0,
        messages=[{"role": "user", "content": INPUT}],
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "person", "schema": PERSON},
        },
    )
    assert chat.choices[0].message.content == done.output_text
    assert chat.usage.prompt_tokens == done.usage.input_tokens


def test_a_response_is_what_openai_says_it_is(http):
    asked = {
        **ASKED,
        "tools": [WEATHER, TIME],
        "tool_choice": "required",
        "instructions": "Be brief.",
    }
    answer = http.post("/v1/responses", json=asked).json()
    found = Response.model_validate(answer, strict=True)
    assert found.output[0].type == "function_call" and found.tools[0].name == "get_weather"
    with http.stream("POST", "/v1/responses", json={**asked, "stream": True}) as stream:
        lines = [line for line in stream.iter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert lines[::2] == [f"event: {event['type']}" for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        TypeAdapter(ResponseStreamEvent).validate_python(event, strict=True)


def test_parse_with_pydantic(client):
    done = client.responses.parse(model="small", input=INPUT, temperature=0, text_format=Person)
    assert done.output_parsed == Person(name="Anna", age=31)


def test_a_stream_of_a_text(client):
    with client.responses.stream(
        model="small", input=INPUT, temperature=0, text_format=Person
    ) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_parsed == Person(name="Anna", age=31)
    kinds = [event.type for event in events if event.type != "response.output_text.delta"]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert (
        "".join(event.delta for event in events if event.type == "response.output_text.delta")
        == final.output_text
    )
    assert all(event.item_id == final.output[0].id for event in events if hasattr(event, "item_id"))


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        "auto",
        {"type": "function", "name": "get_time"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "get_time"}],
        },
    ],
)
def test_tools(client, choice):
    asked = dict(ASKED, tools=[WEATHER, TIME], tool_choice=choice, parallel_tool_calls=False)
    done = client.responses.create(**asked)
    calls = [item for item in done.output if item.type == "function_call"]
    assert len(calls) == 1 or choice == "auto"
    for call in calls:
        tool = {"get_weather": WEATHER, "get_time": TIME}[call.name]
        jsonschema.validate(json.loads(call.arguments), tool["parameters"])
        assert call.name == "get_time" or not isinstance(choice, dict)
    told: dict[int, str] = {}
    with client.responses.stream(**asked) as stream:
        for event in stream:
            if event.type == "response.function_call_arguments.delta":
                told[event.output_index] = told.get(event.output_index, "") + event.delta
        final = stream.get_final_response()
    assert [(item.type, getattr(item, "arguments", None)) for item in final.output] == [
        (item.type, getattr(item, "arguments", None)) for item in done.output
    ]
    assert told == {
        index: item.arguments
        for index, item in enumerate(final.output)
        if item.type == "function_call"
    }


def test_a_loop_with_a_tool(client):
    items = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "I want to get the weather in Paris"}],
        }
    ]
    first = client.responses.create(
        model="small",
        input=items,
        tools=[WEATHER],
        tool_choice="required",
        temperature=0,
        parallel_tool_calls=False,
    )
    [call] = first.output
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"})
    second = client.responses.create(
        model="small", input=items, tools=[WEATHER], temperature=0, max_output_tokens=60
    )
    assert second.usage.input_tokens > first.usage.input_tokens and second.output


def test_tools_or_an_answer_in_the_schema(client):
    class Colour(BaseModel):
        colour: Literal["red", "blue"]

    done = client.responses.parse(**ASKED, tools=[WEATHER], text_format=Colour)
    for item in done.output:
        if item.type == "function_call":
            jsonschema.validate(json.loads(item.arguments), WEATHER["parameters"])
        else:
            assert item.content[0].parsed.colour in ("red", "blue")


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_cut(client, stream):
    asked = dict(model="small", input=INPUT, temperature=0, max_output_tokens=3)
    if stream:
        *_, last = client.responses.create(**asked, stream=True)
        assert last.type == "response.incomplete"
        done = last.response
    else:
        done = client.responses.create(**asked)
    assert done.status == "incomplete" == done.output[0].status and done.usage.output_tokens == 3
    assert done.incomplete_details.reason == "max_output_tokens" and done.completed_at is None


@pytest.mark.parametrize("tools", [[], [WEATHER]])
def test_log_probabilities(client, tools):
    asked = dict(
        model="small",
        input=INPUT,
        temperature=0,
        max_output_tokens=5,
        top_logprobs=2,
        tools=tools,
        include=["message.output_text.logprobs"],
    )
    done = client.responses.create(**asked)
    for item in done.output:
        if item.type == "message":
            scores = item.content[0].logprobs
            assert "".join(one.token for one in scores).startswith(item.content[0].text)
            assert all(len(one.top_logprobs) == 2 for one in scores)
            assert tools or len(scores) == done.usage.output_tokens
    told = [
        one
        for event in client.responses.create(**asked, stream=True)
        if event.type == "response.output_text.done"
        for one in event.logprobs
    ]
    assert [one.token for one in told] == [
        one.token
        for item in done.output
        if item.type == "message"
        for one in item.content[0].logprobs
    ]


def test_several_calls(client):
    """A message must not end yet, and so the model calls on."""
    asked = dict(
        ASKED, tools=[WEATHER, TIME], tool_choice="required", extra_body={"min_tokens": 60}
    )
    done = client.responses.create(**asked)
    assert len(done.output) > 1 and len({item.call_id for item in done.output}) == len(done.output)
    for call in done.output:
        tool = {"get_weather": WEATHER, "get_time": TIME}[call.name]
        jsonschema.validate(json.loads(call.arguments), tool["parameters"])
    with client.responses.stream(**asked) as stream:
        told = [event.item for event in stream if event.type == "response.output_item.done"]
    assert [(item.name, item.arguments) for item in told] == [
        (item.name, item.arguments) for item in done.output
    ]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"instructions": "Be brief.", "reasoning": {"effort": "low"}},
        {"tools": [WEATHER], "tool_choice": "required"},
        {"text": {"format": {"type": "json_schema", "name": "person", "schema": PERSON}}},
    ],
)
def test_tokens_are_counted(client, more):
    asked = {"model": "small", "input": INPUT, **more}
    counted = client.responses.input_tokens.count(**asked)
    assert counted.object == "response.input_tokens"
    usage = client.responses.create(**asked, max_output_tokens=80).usage
    assert counted.input_tokens == usage.input_tokens


def test_an_input_that_is_too_long_is_counted(client):
    counted = client.responses.input_tokens.count(model="small", input="a b c " * 5000)
    assert counted.input_tokens > 10_000


@pytest.mark.parametrize(
    "extra", [{"structured_outputs": {"regex": "[a-c]{3}"}}, {"guided_choice": ["cab", "abba"]}]
)
def test_guides_as_vllm_has_them(client, extra):
    done = client.responses.create(model="small", input=INPUT, temperature=0, extra_body=extra)
    assert set(done.output_text) <= set("abc") and done.status == "completed"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_slot(server, stream):
    ask_and_leave(server, "/v1/responses", stream, input=INPUT, max_output_tokens=1500)


def test_an_error_on_the_way_is_told_with_what_there_was():
    async def events():
        yield Text("Hel")
        raise ApiError(408, "too slow", kind="timeout_error", code="timeout")

    async def all_told():
        body = ResponsesRequest(model="small", input="x")
        renderer = ResponseRenderer(body, Task("small", ([1],), SamplingParams()))
        return [one async for one in stream_objects(renderer, events())]

    *_, error, failed = asyncio.run(all_told())
    assert error == {
        "type": "error",
        "sequence_number": 5,
        "code": "timeout",
        "message": "too slow",
        "param": None,
    }
    assert (
        failed["type"] == "response.failed" and failed["response"]["error"]["message"] == "too slow"
    )
    assert failed["response"]["output"][0]["content"][0]["text"] == "Hel"
    for event in (error, failed):
        TypeAdapter(ResponseStreamEvent).validate_python(event, strict=True)
