"""/v1/messages, live on the shipped model, driven by Anthropic's own client; and what is read of
its messages."""

from __future__ import annotations

import json
from typing import Literal

import anthropic
import httpx
import jsonschema
import pytest
from live_server import KEY
from pydantic import ValidationError

from specguide.errors import InvalidParams
from specguide.params import SamplingParams
from specguide.server.apis.anthropic import MessageRenderer, MessagesRequest
from specguide.server.apis.anthropic_input import template_messages
from specguide.server.tasks.events import Arguments, CallBegin, End, Text
from specguide.server.tasks.task import Task

SAID = "My name is Anna and I am 31 years old."
WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
TIME = {
    "name": "get_time",
    "input_schema": {
        "type": "object",
        "properties": {"zone": {"enum": ["UTC", "CET"]}},
        "required": ["zone"],
        "additionalProperties": False,
    },
}
ASKED = {"model": "small", "max_tokens": 64, "messages": [{"role": "user", "content": SAID}]}

GREEDY = {"extra_body": {"temperature": 0.0}}


@pytest.fixture(scope="module")
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0) as client:
        yield client


def answer(schema):
    return {"type": "json_schema", "schema": schema}


def test_models(client):
    listed = client.models.list()
    assert (listed.first_id, listed.last_id, listed.has_more) == ("small", "small", False)
    (one,) = listed.data
    assert one == client.models.retrieve("small")
    assert (one.id, one.type, one.display_name) == ("small", "model", "small")
    assert one.created_at.timestamp() == one.created
    assert one.max_input_tokens == one.max_tokens == one.max_model_len


def test_text(client):
    message = client.messages.create(**ASKED, system="Answer in one line.")
    assert message.type == "message" and message.role == "assistant" and message.model == "small"
    assert [block.type for block in message.content] == ["text"]
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0


def test_a_stream_is_the_same(client):
    whole = client.messages.create(**ASKED, **GREEDY)
    with client.messages.stream(**ASKED, **GREEDY) as stream:
        text = "".join(stream.text_stream)
        streamed = stream.get_final_message()
    assert text == whole.content[0].text == streamed.content[0].text
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "any"}, {"get_weather", "get_time"}),
        ({"type": "tool", "name": "get_time"}, {"get_time"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"get_weather", "get_time"}),
    ],
)
def test_calls(client, choice, names, is_streamed):
    asked = {**ASKED, "max_tokens": 300, "tools": [WEATHER, TIME], "tool_choice": choice}
    if is_streamed:
        with client.messages.stream(**asked) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**asked)
    calls = [block for block in message.content if block.type == "tool_use"]
    assert message.stop_reason == "tool_use" and calls
    schemas = {tool["name"]: tool["input_schema"] for tool in (WEATHER, TIME)}
    for call in calls:
        assert call.name in names
        jsonschema.validate(call.input, schemas[call.name])
    assert len(calls) == 1 or not choice.get("disable_parallel_tool_use")


def test_a_loop_of_calls(client):
    """The call and its result are sent back, as an agent goes on."""
    messages = [*ASKED["messages"]]
    called = client.messages.create(
        **{**ASKED, "max_tokens": 200}, tools=[WEATHER], tool_choice={"type": "any"}
    )
    (call, *_) = [block for block in called.content if block.type == "tool_use"]
    messages.append({"role": "assistant", "content": called.content})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain", "is_error": False}
    messages.append({"role": "user", "content": [result, {"type": "text", "text": "And now?"}]})
    answer = client.messages.create(
        **{**ASKED, "messages": messages}, tools=[WEATHER], tool_choice={"type": "none"}
    )
    assert [block.type for block in answer.content] == ["text"]


def test_a_loop_of_the_client(client):
    """Its runner keeps to a thread, and sends all again where the server does not know it."""

    @anthropic.beta_tool
    def get_time(zone: Literal["UTC", "CET"]) -> str:
        """The time of a zone."""
        return f"12:00 {zone}"

    choice = {"type": "any", "disable_parallel_tool_use": True}
    runner = client.beta.messages.tool_runner(
        **ASKED, tools=[get_time], tool_choice=choice, max_iterations=3, **GREEDY
    )
    prompts = [
        one.usage.input_tokens + one.usage.cache_read_input_tokens
        for one in runner
        if one.stop_reason == "tool_use"
    ]
    assert len(prompts) == 3 and prompts == sorted(set(prompts))


def test_the_traffic_of_a_coding_agent(client, server):
    """Requests have all that such clients send along."""
    cached = {"cache_control": {"type": "ephemeral"}}
    body = {
        "model": "small",
        "max_tokens": 40,
        "stream": True,
        "system": [
            {"type": "text", "text": "You are a coding agent."},
            {"type": "text", "text": "Use the tools.", **cached},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": SAID, **cached}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Which city?", "signature": "abc"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "rain"}],
                        "is_error": True,
                        **cached,
                    }
                ],
            },
        ],
        "tools": [{**WEATHER, **cached}, {**TIME, "type": "custom"}],
        "metadata": {"user_id": "someone"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
    answer = httpx.post(
        f"{server.url}/v1/messages?beta=true", json=body, headers=headers, timeout=60
    )
    assert answer.status_code == 200, answer.text
    lines = answer.text.split("\n\n")[:-1]
    names = [line.split("\n")[0].removeprefix("event: ") for line in lines]
    told = [json.loads(line.split("\n")[1].removeprefix("data: ")) for line in lines]
    assert names == [one["type"] for one in told]
    assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"]


def test_an_answer_in_a_schema(client):
    schema = {**WEATHER["input_schema"]}
    for field in ("output_format", "output_config"):
        stated = {"type": "json_schema", "schema": schema}
        extra = {field: stated if field == "output_format" else {"format": stated}}
        message = client.messages.create(**{**ASKED, "max_tokens": 200}, extra_body=extra)
        jsonschema.validate(json.loads(message.content[0].text), schema)


def test_a_call_may_be_cut_where_that_is_allowed(client):
    asked = {**ASKED, "max_tokens": 3, "tools": [WEATHER], "tool_choice": {"type": "any"}}
    with pytest.raises(anthropic.BadRequestError, match="set allow_truncation"):
        client.messages.create(**asked)
    message = client.messages.create(**asked, extra_body={"allow_truncation": True})
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 3


def test_stop_sequences(client):
    text = client.messages.create(**ASKED, **GREEDY).content[0].text
    stop = text[3:6]
    message = client.messages.create(**ASKED, **GREEDY, stop_sequences=[stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert "".join(block.text for block in message.content) == text[: text.index(stop)]


def test_tokens_are_counted(client):
    asked = {name: ASKED[name] for name in ("model", "messages")}
    alone = client.messages.count_tokens(**asked).input_tokens
    usage = client.messages.create(**ASKED).usage
    assert alone == usage.input_tokens + usage.cache_read_input_tokens
    assert client.messages.count_tokens(**asked, tools=[WEATHER]).input_tokens > alone
    assert client.messages.count_tokens(**asked, system="One line.").input_tokens > alone


BEGUN = [*ASKED["messages"], {"role": "assistant", "content": "It is a very "}]
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}


def test_an_answer_that_is_begun_goes_on(client, server):
    asked = {**ASKED, "messages": BEGUN, **GREEDY}
    told = client.messages.create(**asked).content[0].text
    chat = httpx.post(
        f"{server.url}/v1/chat/completions",
        headers={"authorization": f"Bearer {KEY}"},
        json={
            "model": ASKED["model"],
            "messages": BEGUN,
            "max_tokens": ASKED["max_tokens"],
            "temperature": 0,
            "continue_final_message": True,
        },
    ).json()
    assert told and told == chat["choices"][0]["message"]["content"]
    with client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == told
    counted = client.messages.count_tokens(model=ASKED["model"], messages=BEGUN)
    assert counted.input_tokens == chat["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tools": [WEATHER]}, "messages: a guide constrains a whole answer"),
        ({"messages": [*BEGUN[:-1], {"role": "assistant", "content": [CALLED]}]}, "the user's, or"),
        ({"messages": [*BEGUN[:-1], {"role": "assistant", "content": ""}]}, "the user's, or"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "thinking: the answer continues"),
    ],
    ids=["tools", "call", "nothing", "thinking"],
)
def test_what_cannot_go_on_is_refused(client, change, words):
    with pytest.raises(anthropic.BadRequestError, match=words):
        client.messages.create(**{**ASKED, "messages": BEGUN, **change})


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": "another"}, anthropic.NotFoundError, "does not exist"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "max_tokens"),
        ({"messages": []}, anthropic.BadRequestError, "at least one message"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, anthropic.BadRequestError, "bash"),
        ({"tool_choice": {"type": "any"}}, anthropic.BadRequestError, "tool_choice"),
        ({"tools": [{"name": "f"}]}, anthropic.BadRequestError, 'must have an "input_schema"'),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "tool"}},
            anthropic.BadRequestError,
            "tool_choice must have the name of one of the tools get_weather",
        ),
        ({"extra_body": {"mcp_servers": [{}]}}, anthropic.BadRequestError, "mcp_servers"),
        (
            {"extra_body": {"thread": {"type": "continue", "previous_message_id": "msg_1"}}},
            anthropic.BadRequestError,
            "thread is not supported: nothing is stored",
        ),
        (
            {"extra_body": {"compaction": {"type": "summarize"}}},
            anthropic.BadRequestError,
            "compaction is not supported",
        ),
        (
            {
                "extra_body": {
                    "output_format": answer({}),
                    "output_config": {"format": answer(True)},
                }
            },
            anthropic.BadRequestError,
            "output_format: output_config.format and output_format both constrain",
        ),
        (
            {"extra_body": {"container": "x"}},
            anthropic.BadRequestError,
            "'container is not supported",
        ),
        (
            {"stop_sequences": ["x"] * 65},
            anthropic.BadRequestError,
            "stop_sequences may have at most 64",
        ),
        ({"stop_sequences": ["x" * 1025]}, anthropic.BadRequestError, "stop_sequences may have"),
    ],
)
def test_errors_are_anthropics(client, change, error, words):
    with pytest.raises(error, match=words) as caught:
        client.messages.create(**{**ASKED, **change})
    body = caught.value.body
    assert body["type"] == "error" and body["error"]["type"].endswith("_error")


def test_what_changes_nothing_is_taken():
    asked = {"thread": {"type": "create"}, "fallbacks": "default", "billing_policy": {"x": 1}}
    assert not list(MessagesRequest.model_validate(ASKED | asked).unknown_fields())


@pytest.mark.parametrize("name", ["guided_json", "structured_outputs", "response_format", "stop"])
def test_what_other_apis_name_otherwise_is_refused(name):
    with pytest.raises(ValidationError, match=f"{name} is not supported: "):
        MessagesRequest.model_validate({**ASKED, name: {"type": "object"}})


@pytest.mark.parametrize(
    ("content", "words", "place"),
    [
        ([{"type": "image", "source": {}}], "found type 'image'", "[0]"),
        ([{"type": "document", "source": {"type": "base64"}}], "found type 'document'", "[0]"),
        (
            [{"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}}],
            "found type 'image'",
            "[0].source.content[0]",
        ),
        ([{"type": "text", "text": "x"}, {"type": "text"}], "text only is read", "[1]"),
        ([1], "a list of blocks", ""),
        (None, "a string or a list", ""),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_is_no_text_is_named(role, content, words, place):
    with pytest.raises(InvalidParams, match=words) as caught:
        template_messages(None, [{"role": role, "content": content}])
    assert caught.value.param == f"messages[0].content{place}"


def test_documents_search_results_and_found_tools_are_read_as_text():
    text = {"type": "text", "text": "a"}
    plain = {"type": "text", "media_type": "text/plain", "data": "b"}
    found = [{"type": "tool_reference", "tool_name": name} for name in ("get_weather", "f")]
    blocks = [
        {"type": "tool_result", "tool_use_id": "1", "content": found},
        {"type": "search_result", "source": "https://x", "title": "X", "content": [text]},
        {"type": "document", "source": plain, "title": "Y", "citations": {"enabled": True}},
        {"type": "document", "source": {"type": "content", "content": [text, text]}},
    ]
    result, said = template_messages(None, [{"role": "ctx", "content": blocks}])
    assert result == {"role": "tool", "tool_call_id": "1", "content": "get_weather\nf"}
    assert said == {"role": "user", "content": "X\nhttps://x\na\nY\nb\na\na"}


def test_messages_become_those_of_the_template():
    blocks = [
        {"type": "tool_result", "tool_use_id": "1", "content": "a"},
        {"type": "tool_result", "tool_use_id": "2"},
        {"type": "text", "text": "b"},
        {"type": "text", "text": "c"},
    ]
    call = {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}
    thought = {"type": "thinking", "thinking": "hm"}
    made = template_messages(
        [{"type": "text", "text": "s"}, {"type": "text", "text": "t"}],
        [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [thought, {"type": "redacted_thinking"}, call]},
            {"role": "user", "content": blocks},
        ],
    )
    function = {"name": "f", "arguments": {"x": 1}}
    assert made == [
        {"role": "system", "content": "s\nt"},
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "thinking": "hm",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "content": ""},
        {"role": "user", "content": "b\nc"},
    ]


@pytest.mark.parametrize("arguments", ['{"x": ', '{"x": ' + "[" * 5000])
def test_a_call_that_is_cut_off_is_left_out(arguments):
    body = MessagesRequest(**ASKED)
    renderer = MessageRenderer(body, Task("small", ([1],), SamplingParams()))
    for event in (Text("Well."), CallBegin(0, "f"), Arguments(0, arguments), End("length")):
        list(renderer.take(event))
    message = renderer.whole()
    assert [block["type"] for block in message["content"]] == ["text"]
    assert message["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("is_text", [False, True])
def test_the_line_for_accounts_is_no_part_of_the_prompt(is_text):
    """Else no two requests of Claude Code would begin alike."""
    line = "x-anthropic-billing-header: cc_version=2.1.197.2f5; cc_entrypoint=cli; cch=a1b2c;"
    blocks = [{"type": "text", "text": line}, {"type": "text", "text": "You are an agent."}]
    system = f"{line}\nYou are an agent." if is_text else blocks
    said = [{"role": "user", "content": line}]
    assert template_messages(system, said) == [
        {"role": "system", "content": "You are an agent."},
        *said,
    ]
    assert template_messages(blocks[:1], said) == said
