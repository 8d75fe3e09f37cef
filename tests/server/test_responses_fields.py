"""/v1/responses: which fields and items are taken, refused, or brought into the form of a chat."""

from __future__ import annotations

import json

import openai
import pytest
from response_bodies import INPUT, WEATHER

from specguide.errors import InvalidParams
from specguide.server.apis.responses.input import input_messages

NESTED = json.loads("[" * 600 + "]" * 600)


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"n": 2}, "n", "a request gets one response"),
        ({"messages": []}, "messages", "reads input"),
        ({"temperature": -1}, "temperature", "temperature must be"),
        ({"max_output_tokens": 0}, "max_output_tokens", "greater than"),
        ({"top_logprobs": 21}, "top_logprobs", "less than"),
        ({"top_logprobs": 2}, "top_logprobs", "needs include"),
        ({"include": ["everything"]}, "include[0]", "include does not know"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "nothing is stored"),
        ({"conversation": "conv_1"}, "conversation", "nothing is stored"),
        ({"prompt": {"id": "x"}}, "prompt", "stored"),
        ({"background": True}, "background", "not supported"),
        ({"truncation": "auto", "input": "a b c " * 5000}, "input", "maximum context length"),
        ({"input": []}, "input", "at least one"),
        ({"input": [1]}, None, ""),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "role must be"),
        ({"input": [{"role": [], "content": "x"}]}, "input[0].role", "role must be"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
            "text only",
        ),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input", "at least one"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]", "the item itself"),
        ({"input": [{"type": "computer_call", "id": "x"}]}, "input[0].type", "computer_call"),
        (
            {"input": [{"type": "function_call_output", "call_id": [], "output": "x"}]},
            "input[0].call_id",
            "no call",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "x"}]},
            "input[0].arguments",
            "JSON",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "x", "arguments": "{}"}]},
            "input[0].name",
            "needs a string name",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "[]"}]},
            "input[0].arguments",
            "object",
        ),
        ({"metadata": {"a": "\ud800"}}, "metadata", "not Unicode"),
        ({"instructions": "\ud800"}, None, "Unicode"),
        ({"tools": [{**WEATHER, "description": NESTED}]}, "tools", "nested too deeply"),
        ({"tools": [{**WEATHER, "name": "a b"}]}, "tools[0].name", "1 to 128 letters"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name", "two tools"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "name": ["x"]}},
            "tool_choice",
            "names ['x']",
        ),
        ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice", "must be"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": 3}},
            "tool_choice",
            "must be",
        ),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "needs"),
        (
            {"text": {"format": {"type": "json_object"}}, "guided_regex": "a"},
            "guided_regex",
            "each constrain",
        ),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs.tools", "may set"),
    ],
)
def test_what_is_refused(http, change, param, words):
    body = json.dumps(
        {"model": "small", "input": INPUT, "max_output_tokens": 4, "tool_choice": "none"} | change
    )
    answer = http.post("/v1/responses", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert words in error["message"] and (param is None or error["param"] == param), error


@pytest.mark.parametrize(
    "change",
    [
        {"store": True},
        {"background": False},
        {"truncation": "disabled"},
        {"truncation": "auto"},
        {"previous_response_id": None},
        {"include": []},
        {"reasoning": {"effort": None}},
        {"service_tier": "auto"},
        {"prompt_cache_key": "x"},
        {"user": "x"},
        {"text": {"format": {"type": "text"}, "verbosity": "medium"}},
        {"tools": []},
        {"tools": [{"type": None, "function": None, "name": "f", "strict": None}]},
        {"input": [{"type": None, "id": None, "role": "user", "content": "U"}]},
        {"stream": None},
        {"priority": 3},
        {"stream_options": {"include_obfuscation": False}},
        {"seed": 3, "top_k": 5, "repetition_penalty": 1.1},
    ],
)
def test_what_is_taken(http, change):
    answer = http.post(
        "/v1/responses", json={"model": "small", "input": INPUT, "max_output_tokens": 2} | change
    )
    assert answer.status_code == 200 and answer.json()["store"] is False, answer.text


def test_another_model(client):
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.responses.create(model="gpt-7", input=INPUT)


def test_items_become_messages():
    def call(name):
        return {
            "type": "function_call",
            "id": "fc_1",
            "call_id": name,
            "name": name,
            "arguments": '{"a": 1}',
        }

    def called(name):
        return {"id": name, "type": "function", "function": {"name": name, "arguments": {"a": 1}}}

    items = [
        {"role": "developer", "content": "D"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "U"}, {"type": "input_text", "text": "!"}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "", "annotations": []},
                {"type": "output_text", "text": "A", "annotations": []},
            ],
        },
        call("f"),
        call("g"),
        {"type": "function_call_output", "call_id": "g", "output": "G"},
        {
            "type": "function_call_output",
            "call_id": "f",
            "output": [{"type": "input_text", "text": "F"}],
        },
        call("h"),
    ]
    assert input_messages("I", items) == [
        {"role": "system", "content": "I"},
        {"role": "system", "content": "D"},
        {"role": "user", "content": "U\n!"},
        {"role": "assistant", "content": "A", "tool_calls": [called("f"), called("g")]},
        {"role": "tool", "tool_call_id": "g", "content": "G"},
        {"role": "tool", "tool_call_id": "f", "content": "F"},
        {"role": "assistant", "content": None, "tool_calls": [called("h")]},
    ]
    nulls = {"type": None, "id": None, "status": None, "name": None}
    assert input_messages(None, [{**nulls, "role": "user", "content": "U"}]) == [
        {"role": "user", "content": "U"}
    ]
    assert input_messages(None, "U") == [{"role": "user", "content": "U"}]
    with pytest.raises(InvalidParams, match="the call too"):
        input_messages(None, [{"type": "function_call_output", "call_id": "f", "output": "F"}])
