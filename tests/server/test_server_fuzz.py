"""Random and mutated requests to the API: never a 500, errors of OpenAI's shape that name the
field, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, example, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core import NotSet
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from specguide.config import EngineConfig, GuideConfig, SpecConfig
from specguide.engine import AsyncEngine, Engine
from specguide.server.apis.plain_routes import router as plain_routes
from specguide.server.app import create_app, router
from specguide.server.bodies.requests import ChatRequest, CompletionRequest, ResponsesRequest
from specguide.server.config import ServerConfig

BOUNDED = {
    "/v1/chat/completions": {"max_tokens": 3},
    "/v1/completions": {"max_tokens": 3},
    "/v1/responses": {"max_output_tokens": 3},
    "/v1/messages": {"max_tokens": 3},
    "/playground/generate": {"max_tokens": 3},
}
USER = [{"role": "user", "content": "Hi"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
VALID = {
    "/v1/chat/completions": {
        "model": "small",
        "messages": USER,
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 1,
        "seed": 3,
        "stop": ["\n"],
        "logit_bias": {"5": 1.5},
        "presence_penalty": 0.1,
        "frequency_penalty": 0.1,
        "user": "u",
        "top_k": 5,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "min_tokens": 1,
        "ignore_eos": False,
        "stop_token_ids": [5],
        "bad_words": ["x"],
        "allowed_token_ids": None,
        "include_stop_str_in_output": False,
        "priority": 0,
        "speculation": {"num_draft_tokens": 1, "guided_drafts": None},
        "guided_json": None,
        "guided_regex": None,
        "guided_choice": None,
        "guided_grammar": None,
        "structured_outputs": None,
        "response_format": {"type": "text"},
        "tools": None,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "metadata": {"a": "b"},
        "logprobs": True,
        "top_logprobs": 2,
        "stream": False,
        "stream_options": None,
        "chat_template_kwargs": {},
    },
    "/v1/completions": {
        "model": "small",
        "prompt": "One",
        "temperature": 0.0,
        "n": 1,
        "stop": "x",
        "logprobs": 1,
        "echo": False,
        "suffix": None,
        "best_of": None,
        "stream": False,
        "seed": None,
    },
    "/v1/responses": {
        "model": "small",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
        ],
        "instructions": "Be brief.",
        "text": {"format": {"type": "text"}},
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
            {
                "type": "namespace",
                "name": "n",
                "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
            },
            {"type": "web_search"},
        ],
        "tool_choice": "auto",
        "include": [],
        "store": False,
        "stream": False,
        "top_logprobs": None,
        "metadata": {},
        "truncation": "disabled",
        "reasoning": None,
        "background": False,
        "conversation": None,
        "previous_response_id": None,
        "prompt": None,
        "temperature": 0.0,
    },
    "/v1/messages": {
        "model": "small",
        "max_tokens": 3,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            *USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": ""},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]},
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2},
        "output_config": {"effort": "low", "format": None},
        "stop_sequences": ["x"],
        "temperature": 0.0,
        "top_k": 5,
        "stream": False,
    },
    "/playground/generate": {
        "model": "small",
        "messages": USER,
        "stop": None,
        "guided_regex": None,
        "tools": None,
    },
    "/tokenize": {
        "model": "small",
        "prompt": "Hello",
        "messages": None,
        "tools": None,
        "add_special_tokens": True,
    },
    "/detokenize": {"model": "small", "tokens": [5, 6, 7]},
}
GUIDED = [
    {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "integer"}},
        }
    },
    {"guided_regex": "a+"},
    {"guided_choice": ["a", "b"]},
    {"guided_grammar": 'root ::= "a"'},
    {"structured_outputs": {"json": {"enum": [1, 2]}}},
    {"tools": [TOOL], "tool_choice": "required"},
    {
        "messages": [
            *USER,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "1"}]},
        ],
        "tools": [TOOL],
    },
]

ODD_TEXT = st.sampled_from(
    [
        "",
        "\0",
        "\ud800",
        "\U0001f600\u202e",
        "a" * 5000,
        "{" * 200,
        "(a*)*b",
        "<|im_end|>",
        "NaN",
        "𝟙",
        "null",
        "\\u0000",
    ]
) | st.text(max_size=8)
ODD_NUMBERS = (
    st.sampled_from(
        [
            0,
            -1,
            1,
            2,
            2**31,
            2**63,
            -(2**63),
            10**30,
            10**400,
            1.5,
            1e308,
            -1e-320,
            1e999,
            -1e999,
            float("nan"),
            True,
        ]
    )
    | st.integers()
    | st.floats()
)
ODD = st.recursive(
    st.none() | st.booleans() | ODD_NUMBERS | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def engine() -> Iterator[AsyncEngine]:
    yield AsyncEngine(
        Engine(
            EngineConfig(
                spec=SpecConfig(), guide=GuideConfig(compile_timeout_s=2.0), max_batch_size=4
            )
        ),
        max_waiting=60,
    )


@pytest.fixture(scope="module")
def app(engine: AsyncEngine):
    return create_app(engine, ServerConfig("small", max_body_bytes=100_000))


@pytest.fixture(scope="module")
def client(app, engine: AsyncEngine) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client
        assert engine.num_unfinished == 0
        engine._engine.check_integrity()
        assert engine.health.is_healthy


def places(value, path=()):
    """The places of all values in a JSON value, itself first."""
    yield path
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def check(answer):
    assert answer.status_code == 200 or (
        400 <= answer.status_code < 500 and answer.status_code != 422
    ), answer.text
    if answer.status_code == 200:
        return
    body = answer.json()
    if answer.request.url.path.startswith("/v1/messages"):
        assert body["type"] == "error" and body["error"].keys() - {"details"} == {"type", "message"}
        return body["error"]
    assert body.keys() == {"error"} and body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["message"] and len(body["error"]["message"]) < 2100
    body["error"]["message"].encode()
    return body["error"]


def send(client, path, body):
    if isinstance(body, dict):
        body = {**body, **BOUNDED.get(path, {})}
    content = (
        body if isinstance(body, bytes) else b"" if isinstance(body, NotSet) else json.dumps(body)
    )
    # A lone surrogate goes as its escape, NaN as Python spells it: both are what clients send.
    return client.post(path, content=content, headers={"Content-Type": "application/json"})


@st.composite
def mutated(draw):
    path = draw(st.sampled_from(list(VALID)))
    body = VALID[path] | (
        draw(st.sampled_from([{}, *GUIDED])) if path.endswith("chat/completions") else {}
    )
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(sorted((p for p in places(body) if p), key=repr)))
        if draw(st.booleans()) and isinstance(body, dict):
            place = (draw(st.sampled_from(sorted(body))),)
        body = replaced(body, place, draw(ODD))
    if draw(st.integers(0, 9)) == 0:
        body = {**body, draw(ODD_TEXT): draw(ODD)}
    return path, body


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(mutated())
@example(("/v1/chat/completions", {"model": "small", "messages": USER, "\ud800": 1}))
@example(("/v1/chat/completions", {"model": "small", "messages": USER, "stop": "\ud800"}))
@example(("/v1/chat/completions", {"model": "\ud800", "messages": USER}))
@example(
    ("/v1/chat/completions", {"model": "small", "messages": [{"role": "\ud800", "content": "x"}]})
)
@example(("/v1/completions", {"model": "small", "prompt": "\ud800"}))
@example(("/v1/completions", {"model": "small", "prompt": [1.5]}))
@example(("/tokenize", {"prompt": "a", "add_special_tokens": 3}))
@example(("/detokenize", {"tokens": [2**70]}))
@example(
    ("/v1/messages", {"messages": [{"role": "assistant", "content": [{"type": {"a": None}}]}]})
)
@example(("/v1/messages", {"messages": USER, "tool_choice": {"type": []}}))
def test_mutated_bodies(client, case):
    path, body = case
    check(send(client, path, body))


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (path, field)
        for path, body in (
            ("/v1/chat/completions", ChatRequest),
            ("/v1/completions", CompletionRequest),
            ("/v1/responses", ResponsesRequest),
        )
        for field in body.model_fields
        if field not in BOUNDED[path]
    ],
)
def test_a_wrong_value_is_refused_by_the_fields_name(client, path, field):
    least = {
        "/v1/chat/completions": {"messages": USER},
        "/v1/completions": {"prompt": "One"},
        "/v1/responses": {"input": "Hi"},
    }[path]
    for value in ({"a": [1]}, [[{}]], -(10**400), "\ud800", 1e999, float("nan")):
        error = check(send(client, path, {"model": "small", **least, field: value}))
        told = {"instructions": "input", "ebnf": "grammar"}.get(field, field)  # what it becomes
        assert (
            error is None
            or error["param"] == told
            or field in error["message"]
            or (field in error["param"] or error["param"] in field)
        ), (value, error)


@pytest.mark.parametrize("path", sorted(VALID))
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "3",
        '"x"',
        "[]",
        "[" * 5000,
        '{"a":' * 5000,
        "{}",
        '{"model": "small", "model": 3}',
        "NaN",
        "\ufeff{}",
        '{"messages": ' + "[" * 900 + "]" * 900 + ', "model": "small"}',
        '{"a": 1' + "0" * 5000 + "}",
        "\0",
    ],
)
def test_texts_that_are_no_body(client, path, text):
    answer = client.post(path, content=text.encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and check(answer)


def test_a_key_given_twice_counts_as_given_last(client):
    text = '{"model": "other", "prompt": "Hello", "model": "small"}'
    assert (
        client.post(
            "/tokenize", content=text, headers={"Content-Type": "application/json"}
        ).status_code
        == 200
    )


def operations():
    """The operations of the app's own OpenAPI, each with its strategy of cases that fit it and of
    such that do not."""
    from fastapi import FastAPI

    app = FastAPI()
    for routes in (router, plain_routes):
        app.include_router(routes)
    schema = schemathesis.openapi.from_dict(app.openapi())
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.label)
def test_openapi(client, operation):
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    cases = st.one_of(
        [
            operation.as_strategy(generation_mode=mode)
            for mode in modes
            if operation.body or mode == modes[0]
        ]
    )

    @settings(max_examples=40 if operation.body else 3, suppress_health_check=list(HealthCheck))
    @given(cases)
    def conforms(case):
        body = case.body
        if isinstance(body, dict) and isinstance(body.get("model"), str):
            body = {**body, "model": "small"}  # to get further than that
        path = case.formatted_path
        answer = send(client, path, body) if operation.body else client.request(case.method, path)
        check(answer)
        case.validate_response(
            answer,
            checks=[not_a_server_error, content_type_conformance, response_schema_conformance],
        )

    conforms()


def test_all_errors_are_documented(app):
    for path, methods in app.openapi()["paths"].items():
        for operation in methods.values():
            assert {"400", "401", "404", "408", "413", "415", "429", "503"} <= operation[
                "responses"
            ].keys(), path
            assert "422" not in operation["responses"]
