"""What is answered to what middleware refuses, and to errors that nobody foresaw: in the words of
the API that was asked."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fastapi.testclient import TestClient

from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.params import SamplingParams
from specguide.server.apis.api import stream_objects
from specguide.server.apis.completions import CompletionRenderer
from specguide.server.app import create_app
from specguide.server.bodies.requests import CompletionRequest
from specguide.server.config import Exposure, ServerConfig
from specguide.server.http.errors import ApiError
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import Text
from specguide.server.tasks.task import Task

KEY = {"x-api-key": "a secret"}
CHAT = "/v1/chat/completions"
MESSAGES = ("/v1/messages", "/v1/messages/count_tokens")


@pytest.fixture(scope="module")
def engine():
    return Engine(EngineConfig(max_batch_size=2))


def client_of(engine, **exposure) -> TestClient:
    config = ServerConfig(
        "small", api_keys=("a secret",), exposure=Exposure(**exposure), max_body_bytes=5000
    )
    return TestClient(create_app(AsyncEngine(engine), config))


@pytest.mark.parametrize("root", ["", "/llm"])
@pytest.mark.parametrize(
    ("headers", "body", "status", "kind"),
    [
        ({}, b"{}", 401, "authentication_error"),
        (KEY, b"x" * 5001, 413, "request_too_large"),
        ({**KEY, "content-encoding": "gzip"}, b"{}", 415, "invalid_request_error"),
        (KEY, b"{", 400, "invalid_request_error"),
    ],
)
def test_refusals_are_in_the_words_of_the_api(engine, root, headers, body, status, kind):
    client = client_of(engine, root_path=root)
    for path in MESSAGES:
        answer = client.post(root + path, content=body, headers=headers)
        refusal = answer.json()
        assert answer.status_code == status and answer.headers["x-request-id"]
        assert refusal.keys() == {"type", "error"} and refusal["type"] == "error"
        error = refusal["error"]
        assert error.keys() - {"details"} == {"type", "message"} and error["type"] == kind
    answer = client.post(root + CHAT, content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}


def test_a_server_that_stops_says_so_in_the_words_of_the_api(engine):
    client = client_of(engine)
    client.app.state.bodies.close(ApiError.shutting_down())
    for path in MESSAGES:
        answer = client.post(path, json={}, headers=KEY)
        assert answer.status_code == 503 and answer.headers["connection"] == "close"
        assert answer.json()["error"]["type"] == "overloaded_error"
    assert client.post(CHAT, json={}, headers=KEY).json()["error"]["code"] == "shutting_down"


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/completions", *MESSAGES])
def test_errors_that_nobody_foresaw(engine, monkeypatch, caplog, path):
    def check_model(*_):
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(Backend, "check_model", check_model)
    messages = [{"role": "user", "content": "hi"}]
    body = {"messages": messages, "max_tokens": 1, "prompt": "hi", "input": "hi"}
    names = {CHAT: "messages", "/v1/responses": "input", "/v1/completions": "prompt"}
    given = {name: body[name] for name in (names.get(path, "messages"),)}
    given |= {"max_tokens": 1} if path == "/v1/messages" else {}
    origin = "https://example.org"
    client = client_of(engine, allowed_origins=(origin,))
    answer = client.post(path, json=given, headers={**KEY, "origin": origin})
    assert answer.status_code == 500 and answer.headers["connection"] == "close"
    assert answer.headers["access-control-allow-origin"] == origin
    error = answer.json()["error"]
    assert "its log says why" in error["message"] and "of the test" not in answer.text
    if path in MESSAGES:
        assert answer.json()["type"] == "error" and error["type"] == "api_error"
    else:
        assert error["type"] == "server_error" and error["code"] == "internal_error"
    [logged] = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert isinstance(logged.exc_info[1], ZeroDivisionError) and path in logged.getMessage()


def test_a_stream_ends_with_an_error_that_nobody_foresaw(caplog):
    async def events():
        yield Text("a")
        raise ZeroDivisionError("of the test")

    async def all_of_them():
        body = CompletionRequest(prompt="ab", stream=True)
        renderer = CompletionRenderer(body, Task("m", ([1, 2],), SamplingParams()))
        return [one async for one in stream_objects(renderer, events())]

    first, last = asyncio.run(all_of_them())
    assert first["choices"][0]["text"] == "a" and last["error"]["code"] == "internal_error"
    assert isinstance(caplog.records[-1].exc_info[1], ZeroDivisionError)
