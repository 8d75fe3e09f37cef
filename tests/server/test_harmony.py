"""OpenAI's Harmony format over HTTP: thoughts in one channel, calls in another, the guide in the
last; the shipped model writes the marks as text, since it has no tokens for them, and one other
mark, since <|end|> ends its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import anthropic
import jsonschema
import pytest
from live_server import Server

from specguide.config import EngineConfig, SpecConfig
from specguide.guided.reasoning_formats import reasoning_formats
from specguide.guided.tools import tool_formats
from specguide.server.config import ServerConfig
from specguide.server.tasks.messages import template_messages
from specguide.server.tasks.reasoning import ReasoningPlan

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
QUESTION = [{"role": "user", "content": "My name is Anna and I am 31 years old."}]
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
NOTE = {"name": "note", "parameters": PERSON}
ASKED = {"model": "small", "messages": QUESTION, "temperature": 0, "max_completion_tokens": 400}
BUDGET = {"extra_body": {"max_reasoning_tokens": 8}}


def marked_over(one):
    """A form with another mark of a message's end."""
    told = {name: text for name, text in vars(one).items() if isinstance(text, str)}
    return replace(
        one, **{name: text.replace("<|end|>", "<|over|>") for name, text in told.items()}
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    formats = {"reasoning_format": reasoning_formats(), "tool_format": tool_formats()}
    with pytest.MonkeyPatch.context() as patch:
        for known in formats.values():
            patch.setitem(known, "harmony_here", marked_over(known["gpt_oss"]))
        server = Server(
            EngineConfig(spec=SpecConfig(), max_batch_size=4),
            ServerConfig("small", **dict.fromkeys(formats, "harmony_here")),
        )
        yield server
        server.stop()


def test_the_formats_write_what_the_description_of_harmony_shows():
    """Source: the examples of OpenAI's guide to the Harmony response format."""
    thinks, calls = reasoning_formats()["gpt_oss"], tool_formats()["gpt_oss"]
    answer = thinks.begin + "…" + thinks.end + thinks.resumes + calls.answer("2 + 2 = 4.")
    assert answer == (
        "<|channel|>analysis<|message|>…<|end|>"
        "<|start|>assistant<|channel|>final<|message|>2 + 2 = 4."
    )
    call = calls.message([("get_current_weather", '{"location":"San Francisco"}')], "I look it up.")
    assert call == (
        "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>"
        '{"location":"San Francisco"}'
    )


def test_the_guide_binds_in_the_final_channel(client):
    asked = {**ASKED, "response_format": FORMAT, **BUDGET}
    whole = client.chat.completions.create(**asked).choices[0].message
    jsonschema.validate(json.loads(whole.content), PERSON)
    assert whole.reasoning_content and "<|" not in whole.reasoning_content
    reasoning = text = ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        reasoning += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
        text += chunk.choices[0].delta.content or ""
    assert (reasoning, text) == (whole.reasoning_content, whole.content)


def test_calls_are_in_commentary(client):
    tools = [{"type": "function", "function": NOTE}]
    asked = {**ASKED, "tools": tools, "tool_choice": "required", **BUDGET}
    whole = client.chat.completions.create(**asked).choices[0].message
    (call,) = whole.tool_calls
    jsonschema.validate(json.loads(call.function.arguments), PERSON)
    assert call.function.name == "note" and not whole.content and whole.reasoning_content
    arguments = ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        for part in chunk.choices[0].delta.tool_calls or ():
            arguments += part.function.arguments
    assert arguments == call.function.arguments


@pytest.mark.parametrize("effort", [None, "none"])
def test_tools_and_an_answer(client, effort):
    """The model may call or answer; either is told without marks."""
    asked = {**ASKED, "tools": [{"type": "function", "function": NOTE}], "response_format": FORMAT}
    effort = {"reasoning_effort": effort} if effort else {}
    message = client.chat.completions.create(**asked, **effort, **BUDGET).choices[0].message
    said = message.tool_calls[0].function.arguments if message.tool_calls else message.content
    jsonschema.validate(json.loads(said), PERSON)
    assert hasattr(message, "reasoning_content") == (not effort)


def test_without_thoughts_the_final_channel_is_begun(client):
    asked = {**ASKED, "response_format": FORMAT, "reasoning_effort": "none"}
    message = client.chat.completions.create(**asked).choices[0].message
    jsonschema.validate(json.loads(message.content), PERSON)
    assert not hasattr(message, "reasoning_content")


def test_responses(client):
    tool = {"type": "function", **NOTE}
    asked = {"model": "small", "input": QUESTION, "temperature": 0, "max_output_tokens": 400}
    asked |= {"tools": [tool], "tool_choice": "required", **BUDGET}
    done = client.responses.create(**asked)
    assert [item.type for item in done.output] == ["reasoning", "function_call"]
    jsonschema.validate(json.loads(done.output[1].arguments), PERSON)
    streamed = [
        event.item.type
        for event in client.responses.create(**asked, stream=True)
        if event.type == "response.output_item.done"
    ]
    assert streamed == ["reasoning", "function_call"]


def test_messages_of_anthropic(server):
    asked = {"model": "small", "messages": QUESTION, "max_tokens": 400}
    asked["thinking"] = {"type": "enabled", "budget_tokens": 8}
    tool = {"name": "note", "input_schema": PERSON}
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        with client.messages.stream(**asked, tools=[tool], tool_choice={"type": "any"}) as stream:
            called = stream.get_final_message()
        body = {"output_format": {"type": "json_schema", "schema": PERSON}}
        answered = client.messages.create(**asked, extra_body=body)
    assert [block.type for block in called.content] == ["thinking", "tool_use"]
    jsonschema.validate(called.content[1].input, PERSON)
    assert [block.type for block in answered.content] == ["thinking", "text"]
    jsonschema.validate(json.loads(answered.content[1].text), PERSON)


@pytest.mark.parametrize(
    ("effort", "told"), [("none", "low"), ("minimal", "low"), ("high", "high"), ("xhigh", "high")]
)
def test_efforts_in_the_words_of_the_template(effort, told):
    plan = ReasoningPlan(reasoning_formats()["gpt_oss"], effort)
    assert plan.variables() == {"reasoning_effort": told}


def test_thoughts_are_replayed_as_templates_read_them():
    call = {"function": {"name": "note", "arguments": "{}"}}
    said = [
        {"role": "assistant", "content": None, "reasoning_content": "why", "tool_calls": [call]},
        {"role": "assistant", "content": "text", "reasoning_content": "why", "tool_calls": [call]},
    ]
    assert [message.get("thinking") for message in template_messages(said)] == ["why", None]
