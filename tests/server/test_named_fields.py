"""What cannot be enforced is told with the field of the request that asks it, as its API calls
it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from live_server import Server

from specguide.config import EngineConfig
from specguide.server.config import ServerConfig

CHAT, RESPONSES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/completions"
MESSAGES = "/v1/messages"
REGEX = r"(a+)\1"
WRONG = {"type": "object", "properties": {"a": {"type": "string", "pattern": REGEX}}}
USER = [{"role": "user", "content": "hi"}]
LEAST = {
    CHAT: {"messages": USER},
    RESPONSES: {"input": "hi"},
    COMPLETIONS: {"prompt": "hi"},
    MESSAGES: {"messages": USER, "max_tokens": 50},
}
GRAMMAR = 'root ::= "a" other'
TAG = {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": WRONG}}
TAG["end"] = "</a>"
OLD_TAG = {"begin": "<a>", "schema": WRONG, "end": "</a>"}
PLAIN = {"name": "p", "parameters": {"type": "object", "properties": {}}}
FUNCTION = {"name": "f", "parameters": WRONG}
SPACE = {"type": "namespace", "name": "n", "tools": [{**PLAIN, "type": "function"}]}
SPACE["tools"].append({**FUNCTION, "type": "function"})
ANSWER = {"type": "json_schema", "schema": WRONG}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    config = ServerConfig("small", tool_format="hermes")
    server = Server(EngineConfig(max_batch_size=2), config)
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client
    server.stop()


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        (CHAT, {"guided_json": WRONG}, "guided_json"),
        (CHAT, {"json_schema": WRONG}, "json_schema"),
        (CHAT, {"guided_regex": REGEX}, "guided_regex"),
        (CHAT, {"regex": REGEX}, "regex"),
        (CHAT, {"guided_grammar": GRAMMAR}, "guided_grammar"),
        (CHAT, {"ebnf": GRAMMAR}, "ebnf"),
        (CHAT, {"guided_json": WRONG, "key_order": "any"}, "guided_json"),
        (CHAT, {"structured_outputs": {"json": WRONG}}, "structured_outputs.json"),
        (CHAT, {"structured_outputs": {"regex": REGEX}}, "structured_outputs.regex"),
        (CHAT, {"structured_outputs": {"grammar": GRAMMAR}}, "structured_outputs.grammar"),
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {"schema": WRONG}}},
            "response_format.json_schema.schema",
        ),
        (
            COMPLETIONS,
            {"response_format": {"type": "json_object", "schema": WRONG}},
            "response_format.schema",
        ),
        (
            COMPLETIONS,
            {"response_format": {"type": "regex", "pattern": REGEX}},
            "response_format.pattern",
        ),
        (
            CHAT,
            {"response_format": {"type": "structural_tag", "format": TAG}},
            "response_format.format",
        ),
        (
            CHAT,
            {
                "response_format": {
                    "type": "structural_tag",
                    "structures": [OLD_TAG],
                    "triggers": ["<"],
                }
            },
            "response_format.structures",
        ),
        (RESPONSES, {"text": {"format": {**ANSWER, "name": "n"}}}, "text.format.schema"),
        (MESSAGES, {"output_config": {"format": ANSWER}}, "output_config.format.schema"),
        (MESSAGES, {"output_format": ANSWER}, "output_format.schema"),
        (CHAT, {"tools": [{"function": FUNCTION}]}, "tools[0].function.parameters"),
        (CHAT, {"functions": [PLAIN, FUNCTION]}, "functions[1].parameters"),
        (CHAT, {"functions": [{"name": "?"}]}, "functions[0].name"),
        (
            CHAT,
            {"tools": [{"function": PLAIN}], "guided_json": WRONG},
            "guided_json",
        ),
        (RESPONSES, {"tools": [{**FUNCTION, "type": "function"}]}, "tools[0].parameters"),
        (
            RESPONSES,
            {"tools": [{"type": "web_search"}, SPACE]},
            "tools[1].tools[1].parameters",
        ),
        (
            MESSAGES,
            {"tools": [{"name": "f", "input_schema": WRONG}]},
            "tools[0].input_schema",
        ),
        (
            MESSAGES,
            {"tools": [{"name": "f", "input_schema": {"type": "array"}}]},
            "tools[0].input_schema",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_field_is_named_as_the_client_wrote_it(http, path, asked, param, stream):
    answer = http.post(path, json={**LEAST[path], **asked, "stream": stream})
    error = answer.json()["error"]
    assert answer.status_code == 400, answer.text
    if path == MESSAGES:
        assert error["message"].startswith(f"{param}: ")
    else:
        assert error["param"] == param, error


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (CHAT, "max_tokens"),
        (CHAT, "max_completion_tokens"),
        (COMPLETIONS, "max_tokens"),
        (RESPONSES, "max_output_tokens"),
        (MESSAGES, "max_tokens"),
    ],
)
def test_a_limit_that_no_output_fits_is_told_by_its_name(http, path, name):
    schema = {"type": "string", "pattern": "^[0-9]{8}$"}
    answer = {"type": "json_schema", "schema": schema}
    guided = {"output_format": answer} if path == MESSAGES else {"guided_json": schema}
    error = http.post(path, json=LEAST[path] | guided | {name: 4}).json()["error"]
    assert "the shortest output that matches the guide takes 10 tokens" in error["message"]
    if path == MESSAGES:
        assert error["message"].startswith("max_tokens")
    else:
        assert error["param"] == name


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        (CHAT, {"guided_json": {"title": "\ud800"}}, "guided_json"),
        (CHAT, {"guided_choice": ["\ud800"]}, "guided_choice"),
        (
            CHAT,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"schema": {"const": "\udfff"}},
                }
            },
            "response_format.json_schema.schema",
        ),
        (
            RESPONSES,
            {"text": {"format": {"type": "json_schema", "schema": {"required": ["\udc00"]}}}},
            "text.format.schema",
        ),
        (
            MESSAGES,
            {"output_format": {"type": "json_schema", "schema": {"enum": ["\ud800"]}}},
            "output_format.schema",
        ),
    ],
)
def test_what_is_no_unicode_is_told_by_its_field(http, path, asked, param):
    """Though the chat template is told of it first, and could not be written."""
    headers = {"Content-Type": "application/json"}
    answer = http.post(path, content=json.dumps(LEAST[path] | asked), headers=headers)
    error = answer.json()["error"]
    assert answer.status_code == 400 and "half of a surrogate pair" in error["message"]
    assert param in (error["message"] if path == MESSAGES else error["param"])
