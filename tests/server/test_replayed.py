"""Conversations that go on with what the server said, also where that was cut."""

from __future__ import annotations

import re

import pytest

from specguide.errors import InvalidParams
from specguide.guided.tools import tool_formats
from specguide.server.apis import anthropic_input
from specguide.server.apis.responses.input import input_messages
from specguide.server.tasks.messages import arguments_of, template_messages, with_format_ids

WEATHER = {
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
USER = [{"role": "user", "content": "What is the weather in Paris?"}]


def posted(http, path, **body):
    return http.post(path, json={"temperature": 0, **body})


@pytest.mark.parametrize("max_tokens", [1, 3, 6, 9, 14, 20])
def test_a_call_that_was_cut_is_never_text_and_can_be_sent_back(http, max_tokens):
    asked = dict(
        messages=USER,
        tools=[{"type": "function", "function": WEATHER}],
        tool_choice="required",
        max_tokens=max_tokens,
        allow_truncation=True,
    )
    [choice] = posted(http, "/v1/chat/completions", **asked).json()["choices"]
    message = choice["message"]
    assert not message["content"] and choice["finish_reason"] in ("length", "tool_calls")
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
        for call in message.get("tool_calls", ())
    ]
    asked["messages"] = [*USER, message, *results]
    assert posted(http, "/v1/chat/completions", **asked).status_code == 200


@pytest.mark.parametrize("max_tokens", [3, 14])
def test_a_cut_item_can_be_sent_back(http, max_tokens):
    asked = dict(
        input=USER,
        tools=[{"type": "function", **WEATHER}],
        tool_choice="required",
        max_output_tokens=max_tokens,
        allow_truncation=True,
    )
    done = posted(http, "/v1/responses", **asked).json()
    texts = [item["content"][0]["text"] for item in done["output"] if item["type"] == "message"]
    assert done["status"] == "incomplete" and not any(texts)
    asked["input"] = [*USER, *done["output"]]
    assert posted(http, "/v1/responses", **asked).status_code == 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"city": "Par', {"city": "Par"}),
        ('{"city": "P\\u00', {"city": "P"}),
        ('{"a": 1, "ci', {"a": 1}),
        ('{"a": [1, {"b": tr', {"a": [1, {}]}),
        ("{", {}),
        ("", {}),
        (" ", {}),
        ("null", {}),
        ('{"a": "\ud800', {"a": "?"}),
    ],
)
def test_of_cut_arguments_there_is_what_there_is(text, found):
    assert arguments_of(text, "arguments") == found


@pytest.mark.parametrize("text", ["x", "[1", "3", '"a', "nul"])
def test_what_begins_no_object_is_refused(text):
    with pytest.raises(InvalidParams, match="must be a JSON object"):
        arguments_of(text, "arguments")


def test_old_calls_and_custom_calls_become_tool_calls():
    call = {"name": "f", "arguments": '{"a": 1}'}
    custom = {"id": "c", "type": "custom", "custom": {"name": "g", "input": "x"}}
    made = template_messages(
        [
            *USER,
            {"role": "assistant", "content": None, "function_call": call},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "assistant", "tool_calls": [custom]},
            {"role": "tool", "tool_call_id": "c", "content": None},
            {"role": "assistant", "content": None, "refusal": "No."},
        ]
    )
    first, second = made[1]["tool_calls"][0], made[3]["tool_calls"][0]
    assert first["function"] == {"name": "f", "arguments": {"a": 1}}
    assert made[2]["role"] == "tool" and made[2]["tool_call_id"] == first["id"]
    assert second["function"] == {"name": "g", "arguments": {"input": "x"}}
    assert [message["content"] for message in made[4:]] == ["", "No."]


def test_what_was_thought_goes_back_through_every_api():
    call = {"name": "f", "arguments": "{}"}
    chat = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": call}]}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    thought["content"] = [{"type": "reasoning_text", "text": "why"}]
    items = [thought, {"type": "function_call", "call_id": "c", **call}]
    blocks = [
        {"type": "thinking", "thinking": "why", "signature": ""},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    ]
    for made in (
        template_messages([{**chat, "reasoning_content": "why"}]),
        template_messages([{**chat, "reasoning": "why"}]),
        input_messages(None, items),
        anthropic_input.template_messages(
            None, [{"role": "assistant", "content": blocks}, {"role": "user", "content": "U"}]
        )[:1],
    ):
        [message] = made
        assert message["reasoning_content"] == message["thinking"] == "why"
        assert len(message["tool_calls"]) == 1 and not message["content"]


def test_thoughts_and_the_text_after_them_are_one_message():
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "why"}]}
    sealed = {"type": "reasoning", "content": None, "encrypted_content": "x"}
    text = {"role": "assistant", "content": "A"}
    told = {"reasoning_content": "why", "thinking": "why"}
    assert input_messages(None, [thought, text, sealed, text]) == [{**text, **told}, text]
    assert input_messages(None, [thought, *USER]) == [{**text, "content": "", **told}, *USER]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "x" * 9000}]},
            "messages",
        ),
        ("/v1/completions", {"prompt": "x " * 3000}, "prompt"),
        ("/v1/completions", {"prompt": [7] * 3000}, "prompt"),
        ("/v1/completions", {"prompt": "x" * 190_000}, "prompt"),
        ("/v1/responses", {"input": "x " * 3000}, "input"),
    ],
)
def test_a_prompt_that_is_too_long_is_told_so_that_clients_know(http, path, body, param):
    answer = posted(http, path, **body)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == param
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": USER}, "messages"),
        ("/v1/completions", {"prompt": "x x x", "max_tokens": 2048}, "prompt"),
        ("/v1/responses", {"input": USER}, "input"),
    ],
)
def test_so_is_one_that_leaves_too_little_room_for_its_guide(http, path, body, param, stream):
    """Which the engine finds out, who knows of no fields."""
    asked = {**body, "guided_regex": "[0-9]{2045}", "stream": stream}
    error = posted(http, path, **asked).json()["error"]
    assert "the shortest output that matches the guide takes 2045" in error["message"]
    assert error["param"] == param and error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("stream", [False, True])
def test_so_is_one_of_anthropics_messages(http, stream):
    schema = {"type": "string", "minLength": 2045, "maxLength": 2045, "pattern": "^[0-9]*$"}
    asked = {"output_format": {"type": "json_schema", "schema": schema}, "max_tokens": 2048}
    answer = posted(http, "/v1/messages", messages=USER, stream=stream, **asked)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")


LARGE = {"type": "object", "properties": {f"{i}": {"type": "string"} for i in range(600)}}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (
            "/v1/chat/completions",
            {"messages": USER, "tools": [{"type": "function", "function": WEATHER}]}
            | {"response_format": {"type": "json_schema", "json_schema": {"schema": LARGE}}},
            ("tools", "schema"),
        ),
        (
            "/v1/responses",
            {"input": USER, "text": {"format": {"type": "json_schema", "schema": LARGE}}},
            ("schema",),
        ),
        (
            "/v1/messages",
            {"messages": USER, "max_tokens": 4, "tools": [{"name": "f", "input_schema": LARGE}]},
            ("tools",),
        ),
    ],
)
def test_tokens_of_tools_and_schema_are_told(http, path, body, told):
    """Who reads that the prompt is too long sees what is to be made shorter."""
    message = posted(http, path, **body).json()["error"]["message"]
    pattern = ", ".join(
        [r"the prompt has (\d+) tokens", *(rf"(\d+) of them for the {one}" for one in told)]
    )
    nums = [int(num) for num in re.search(pattern + "; make", message).groups()]
    num_own = http.post("/tokenize", json={"messages": USER}).json()["count"]
    assert nums[0] > 2048 and abs(nums[0] - sum(nums[1:]) - num_own) < 20, message


def test_what_is_said_behind_a_call_is_of_its_message():
    """Some clients swap them, and templates ask for a result right behind its call."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    said = {"type": "message", "role": "assistant", "content": "I look."}
    result = {"type": "function_call_output", "call_id": "c", "output": "rain"}
    swapped = input_messages(None, [*USER, call, said, result])
    assert swapped == input_messages(None, [*USER, said, call, result])
    assert [message["role"] for message in swapped] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("role", "text"),
    [("system", "a\nb"), ("user", "a\nb"), ("tool", "a\nb"), ("assistant", "ab")],
)
def test_parts_are_lines_but_for_what_the_model_wrote(role, text):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    [made] = template_messages([{"role": role, "content": parts, "tool_call_id": "c"}])
    assert made["content"] == text
    if role in ("user", "assistant"):
        said = [{"role": role, "content": parts}, *USER]
        assert anthropic_input.template_messages(None, said)[0]["content"] == text


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("mistral_nemo", ["000000000", "000000001", "000000002"]),
        ("kimi_k2", ["functions.f:0", "functions.g:1", "functions.f:2"]),
        ("hermes", ["call_a", "call_b", "call_a"]),
    ],
)
def test_ids_of_calls_are_told_as_the_format_asks(name: str, ids: list[str]):
    """Templates of Mistral refuse all but nine letters and digits."""

    def called(**names: str) -> dict[str, object]:
        calls = [{"id": one, "function": {"name": f}} for one, f in names.items()]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def result(call_id: str) -> dict[str, str]:
        return {"role": "tool", "tool_call_id": call_id, "content": "1"}

    sent = template_messages(
        [
            *USER,
            called(call_a="f", call_b="g"),
            *(result("call_b"), result("call_a")),
            *USER,
            called(call_a="f"),
            *(result("call_a"), result("other")),
        ]
    )
    made = with_format_ids(sent, tool_formats()[name])
    assert [call["id"] for one in made for call in one.get("tool_calls", ())] == ids
    results = [one["tool_call_id"] for one in made if one["role"] == "tool"]
    assert results == [ids[1], ids[0], ids[2], "other"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["call_a", "call_b"]
