"""What the server refuses: fields, bodies, keys, schemas that are nested too deeply."""

from __future__ import annotations

import json

import httpx
import pytest
from chat_bodies import USER, WEATHER, schema_format
from live_server import KEY


@pytest.mark.parametrize(
    ("change", "status", "param", "words"),
    [
        ({"temperature": -1}, 400, "temperature", "temperature must be"),
        ({"n": 0}, 400, "n", "n must be"),
        ({"n": "2"}, 400, "n", "integer"),
        ({"model": "gpt-7"}, 404, "model", "does not exist"),
        ({"messages": []}, 400, "messages", "at least one"),
        (
            {"messages": [{"role": "king", "content": "x"}]},
            400,
            "messages[0].role",
            "role must be one of",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "messages[0].content[0]",
            "text only",
        ),
        ({"tool_choice": "required"}, 400, "tool_choice", "needs tools"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}},
            400,
            "tool_choice",
            "names 'x'",
        ),
        (
            {"chat_template_kwargs": {"tools": []}},
            400,
            "chat_template_kwargs.tools",
            "must not set tools",
        ),
        ({"tools": [WEATHER, WEATHER]}, 400, "tools[1].function.name", "two tools"),
        (
            {"tools": [WEATHER] * 601},
            400,
            "tools",
            "found 601; send fewer, or start the server with",
        ),
        ({"functions": [WEATHER["function"]] * 601}, 400, "functions", "may have at most 600"),
        (
            {"response_format": {"type": "json_schema", "schema": {"type": "object"}}},
            400,
            "response_format.json_schema.schema",
            "needs a schema at response_format.json_schema.schema",
        ),
        (
            {
                "response_format": schema_format(
                    {"type": "object", "unevaluatedItems": {"contentSchema": 1}}
                )
            },
            None,
            None,
            "",
        ),
        ({"response_format": {"type": "regex", "regex": "("}}, 400, None, ""),
        ({"guided_regex": "a", "guided_choice": ["a"]}, 400, "guided_choice", "each constrain"),
        ({"speculation": {"num_draft_tokens": -1}}, 400, "speculation.num_draft_tokens", "≥ 0"),
        ({"speculation": {"num_draft_tokens": 17}}, 400, "speculation.num_draft_tokens", "at most"),
        (
            {"messages": [{"role": "user", "content": "x" * 9000}]},
            400,
            "messages",
            "maximum context length",
        ),
        (
            {"messages": [{"role": "user", "content": "x" * 300_000}]},
            413,
            None,
            "larger than 200000 bytes; send less, or start the server with a larger --max-body",
        ),
    ],
)
def test_what_is_refused(http, change, status, param, words):
    answer = http.post(
        "/v1/chat/completions", json={"model": "small", "messages": USER, "max_tokens": 4} | change
    )
    error = answer.json().get("error")
    if status is None:
        assert answer.status_code in (200, 400)
        return
    assert answer.status_code == status, answer.text
    assert words in error["message"] and (param is None or error["param"] == param)


@pytest.mark.parametrize("field", ["allowed_token_ids", "bad_words"])
def test_what_forbids_all_that_may_follow_is_the_clients_mistake(http, field):
    """Told by the status, or once that has been sent by an event."""
    asked = http.post("/tokenize", json={"prompt": "1", "add_special_tokens": False})
    value = {"allowed_token_ids": asked.json()["tokens"], "bad_words": ["a"]}[field]
    body = {"messages": USER, field: value, "max_tokens": 20}
    error = http.post("/v1/chat/completions", json={**body, "guided_regex": "a"})
    assert error.status_code == 400 and "Retry-After" not in error.headers
    late = http.post("/v1/chat/completions", json={**body, "guided_regex": "1a", "stream": True})
    assert late.status_code == 200
    event = json.loads(late.text.split("data: ")[-2])
    for told in (error.json()["error"], event["error"]):
        kinds = told["type"], told["param"], told["code"]
        assert kinds == ("invalid_request_error", field, "nothing_left")
        assert f"change {field} so that a token may follow" in told["message"]


@pytest.mark.parametrize("depth", [150, 700, 5000])
@pytest.mark.parametrize("place", ["response_format", "strict", "tools", "guided_json"])
def test_schemas_that_are_nested_too_deeply(http, place, depth):
    schema = '{"type": "array", "items": ' * depth + "true" + "}" * depth
    schema = f'{{"type": "object", "properties": {{"x": {schema}}}}}'
    strict = '{"type": "json_schema", "json_schema": {"name": "x", "strict": %s, "schema": %s}}'
    fields = {
        "response_format": '"response_format": ' + strict % ("false", schema),
        "strict": '"response_format": ' + strict % ("true", schema),
        "tools": f'"tools": '
        f'[{{"type": "function", "function": {{"name": "f", "parameters": {schema}}}}}]',
        "guided_json": f'"guided_json": {schema}',
    }
    body = (
        f'{{"model": "small", "messages": [{{"role": "user", "content": "x"}}], {fields[place]}}}'
    )
    answer = http.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 50_000, b'{"model": "small"}']
)
def test_bodies_that_are_no_request(http, body):
    answer = http.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"


def test_a_body_that_is_not_said_to_be_json(http):
    headers = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d has it
    for path in ("chat/completions", "completions", "responses", "messages"):
        answer = http.post(f"/v1/{path}", content=b'{"model": "small"}', headers=headers)
        assert answer.status_code == 400
        assert "header content-type: application/json" in answer.json()["error"]["message"]


def test_a_body_that_does_not_say_how_long_it_is(http):
    def pieces():
        for _ in range(30):
            yield b" " * 10_000

    answer = http.post(
        "/v1/chat/completions", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413


@pytest.mark.parametrize("key", ["wrong", "Bearer", KEY[:-1]])
def test_without_the_key(server, key):
    answer = httpx.get(f"{server.url}/v1/models", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
