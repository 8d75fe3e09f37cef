"""Custom tools of OpenAI's APIs, which are called with a text."""

from __future__ import annotations

import json
import re

import pytest

from specguide.errors import InvalidParams
from specguide.server.tasks.custom_tools import InputText
from specguide.server.tasks.tools import tools_of

DAY = '[0-9]{4}-[0-9]{2}|"a\\\\n"|today'
TEXTS = ["", "a", 'he said "no"\\\n\t', "é😀\u2028", "\\u0041", "\\\\", "\\ud83d x"]
ASKED = {"temperature": 0.8}


def grammar(definition: str) -> dict:
    return {"type": "grammar", "syntax": "regex", "definition": definition}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_text_is_read_from_arguments_in_any_pieces(text, is_ascii, size):
    written = json.dumps({"input": text}, ensure_ascii=is_ascii)
    reader = InputText()
    found = [reader.feed(written[at : at + size]) for at in range(0, len(written), size)]
    assert "".join(found) == text


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_half_a_character_is_none(size):
    written = '{ "input" :"\\ud83d\\"\\ud83d\\u0041\\ud83d"} '
    reader = InputText()
    found = [reader.feed(written[at : at + size]) for at in range(0, len(written), size)]
    assert "".join(found) == '?"?A?'


@pytest.mark.parametrize("stream", [False, True])
def test_chat_calls_a_custom_tool_with_a_text_of_its_grammar(http, stream):
    tools = [
        {
            "type": "custom",
            "custom": {
                "name": "day",
                "description": "Tells a day.",
                "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": DAY}},
            },
        },
        {"type": "function", "function": {"name": "other"}},
    ]
    asked = {
        **ASKED,
        "messages": [{"role": "user", "content": "Which day?"}],
        "tools": tools,
        "tool_choice": {"type": "custom", "custom": {"name": "day"}},
        "stream": stream,
    }
    answer = http.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 200, answer.text
    if stream:
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
        parts = [part for one in deltas for part in one.get("tool_calls", ())]
        assert parts[0]["type"] == "custom" and parts[0]["custom"] == {"name": "day", "input": ""}
        text = "".join(part["custom"]["input"] for part in parts)
    else:
        [call] = answer.json()["choices"][0]["message"]["tool_calls"]
        assert call["type"] == "custom" and call["custom"]["name"] == "day"
        text = call["custom"]["input"]
        calls = [{"role": "assistant", "tool_calls": [call]}]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "so"}
        again = {**asked, "messages": [*asked["messages"], *calls, result], "tool_choice": "none"}
        assert http.post("/v1/chat/completions", json=again).status_code == 200
    assert re.fullmatch(DAY, text)


@pytest.mark.parametrize("stream", [False, True])
def test_responses_call_a_custom_tool(client, stream):
    tool = {"type": "custom", "name": "day", "format": grammar(DAY)}
    asked = {**ASKED, "model": "small", "input": "Which day?", "tools": [tool]}
    chosen = {"tool_choice": {"type": "custom", "name": "day"}}
    if stream:
        with client.responses.stream(**asked, **chosen) as events:
            told = list(events)
            answer = events.get_final_response()
        deltas = [e.delta for e in told if e.type == "response.custom_tool_call_input.delta"]
        [done] = [e for e in told if e.type == "response.custom_tool_call_input.done"]
        assert "".join(deltas) == done.input == answer.output[-1].input
    else:
        answer = client.responses.create(**asked, **chosen)
    [call] = answer.output
    assert (call.type, call.name) == ("custom_tool_call", "day") and re.fullmatch(DAY, call.input)
    assert [tool.type for tool in answer.tools] == ["custom"]
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "so"}
    items = [{"role": "user", "content": "Which day?"}, call.model_dump(), result]
    again = client.responses.create(**{**asked, "input": items}, tool_choice="none")
    assert again.status in ("completed", "incomplete")


@pytest.mark.parametrize(
    ("custom", "words", "param"),
    [
        ({"name": "a b"}, "1 to 128 letters", "tools[0].name"),
        ({"name": "a", "format": "text"}, "format must be", "tools[0].format"),
        (
            {"name": "a", "format": {"type": "grammar", "syntax": "regex"}},
            "must be",
            "tools[0].format",
        ),
        ({"custom": 3}, "must be an object", "tools[0].custom"),
        ({"custom": {"name": ""}}, "1 to 128 letters", "tools[0].custom.name"),
        (
            {"name": "a", "format": grammar("a") | {"syntax": "lark"}},
            "in Lark cannot be enforced",
            "tools[0].format",
        ),
    ],
)
def test_what_is_no_custom_tool_is_named(custom, words, param):
    with pytest.raises(InvalidParams, match=words) as raised:
        tools_of([{"type": "custom", **custom}])
    assert raised.value.param == param


def test_a_grammar_that_cannot_be_read_is_named(http):
    tools = [{"type": "custom", "name": "a", "format": grammar("(")}]
    body = {"input": "Hi", "tools": tools, "tool_choice": "required"}
    answer = http.post("/v1/responses", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools[0].format"
