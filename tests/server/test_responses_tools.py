"""Tools of /v1/responses as codex sends them: functions in namespaces, and such that OpenAI runs by
itself."""

from __future__ import annotations

import json

import pytest

from specguide.errors import InvalidParams
from specguide.server.apis.responses.input import input_messages
from specguide.server.apis.responses.tools import flat_functions
from specguide.server.bodies.ignored import HEADER

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
}
WEATHER = {"type": "function", "name": "get_weather", "strict": False, "parameters": CITY}
TIME = {"type": "function", "name": "get_time", "parameters": {"type": "object", "properties": {}}}
SPACE = {"type": "namespace", "name": "mcp__sky", "description": "Skies.", "tools": [WEATHER]}
ASKED = {
    "model": "small",
    "input": "What is the weather in Paris?",
    "temperature": 0,
    "max_output_tokens": 80,
}
CHOSEN = {"tool_choice": {"type": "function", "name": "mcp__sky__get_weather"}}


@pytest.mark.parametrize("stream", [False, True])
def test_a_function_of_a_namespace_is_called_and_answered(client, stream):
    asked = {**ASKED, "tools": [TIME, SPACE]}
    if stream:
        with client.responses.stream(**asked, **CHOSEN) as events:
            answer = events.get_final_response()
    else:
        answer = client.responses.create(**asked, **CHOSEN)
    [call] = answer.output
    assert (call.namespace, call.name) == ("mcp__sky", "get_weather")
    assert isinstance(json.loads(call.arguments)["city"], str)
    assert [tool.type for tool in answer.tools] == ["function", "namespace"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    items = [{"role": "user", "content": ASKED["input"]}, call.model_dump(), result]
    again = client.responses.create(**{**asked, "input": items}, tool_choice="none")
    assert again.status in ("completed", "incomplete")


def test_what_is_run_elsewhere_is_left_out_and_told(http):
    tools = [TIME, {"type": "web_search", "external_web_access": False}, {"type": "mcp"}]
    answer = http.post("/v1/responses", json={**ASKED, "max_output_tokens": 2, "tools": tools})
    assert answer.status_code == 200 and answer.headers[HEADER] == "tools[1], tools[2]"
    assert [tool["name"] for tool in answer.json()["tools"]] == ["get_time"]
    chosen = {"tools": tools, "tool_choice": {"type": "web_search"}}
    assert http.post("/v1/responses", json={**ASKED, **chosen}).status_code == 400


def test_a_replayed_call_has_the_name_that_the_model_knows():
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
    [_, message] = input_messages("Hi", [{**call, "namespace": "mcp__sky"}])
    assert message["tool_calls"][0]["function"]["name"] == "mcp__sky__get_weather"
    with pytest.raises(InvalidParams, match="namespace"):
        input_messages(None, [{**call, "namespace": 3}])


@pytest.mark.parametrize(
    ("space", "param"),
    [
        ({"name": "a"}, "tools[0]"),
        ({"name": "", "tools": []}, "tools[0]"),
        ({"name": "a", "tools": [3]}, "tools[0].tools[0]"),
        ({"name": "a", "tools": [{"type": "custom", "name": "b"}]}, "tools[0].tools[0]"),
        ({"name": "a", "tools": [{"type": "function"}]}, "tools[0].tools[0].name"),
    ],
)
def test_a_namespace_that_is_none_is_refused_by_name(space, param):
    with pytest.raises(InvalidParams) as caught:
        flat_functions([{"type": "namespace", **space}])
    assert caught.value.param == param


def test_functions_of_namespaces_count_as_tools(http):
    many = [{**TIME, "name": f"n{number}"} for number in range(600)]
    spaces = [{"type": "namespace", "name": name, "tools": many} for name in "ab"]
    body = {**ASKED, "tools": spaces}
    answer = http.post("/v1/responses", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools"
