"""Streams give signs of life, and say what went wrong after one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from specguide.errors import InvalidGuide
from specguide.server.apis import anthropic, chat, event_stream
from specguide.server.apis.responses import responses
from specguide.server.http.errors import ApiError

USER = [{"role": "user", "content": "My name is Anna and I am 31 years old."}]
BODIES = {
    "/v1/chat/completions": {"messages": USER, "max_tokens": 12},
    "/v1/completions": {"prompt": "One, two,", "max_tokens": 12},
    "/v1/responses": {"input": "My name is Anna.", "max_output_tokens": 12},
    "/v1/messages": {"messages": USER, "max_tokens": 12},
}


@pytest.fixture
def pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life come often."""
    monkeypatch.setattr(event_stream, "PING_S", 0.001)


@pytest.mark.parametrize("path", BODIES)
def test_comments_come_where_nothing_else_does(http: httpx.Client, pings: None, path: str) -> None:
    body = BODIES[path] | {"temperature": 0, "stream": True}
    answer = http.post(path, json=body | {"seed": 1} if path != "/v1/messages" else body)
    events = answer.text.split("\n\n")
    assert answer.status_code == 200 and ": waiting" in events
    told = [event for event in events if event not in (": waiting", "")]
    assert told and all("data: " in event for event in told)


def test_clients_skip_them(client: Any, pings: None) -> None:
    asked = {"model": "small", "messages": USER, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    chunks = client.chat.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole


def test_an_error_before_any_sign_has_its_own_status(http: httpx.Client) -> None:
    body = {"messages": USER, "guided_regex": "(", "stream": True}
    assert http.post("/v1/chat/completions", json=body).status_code == 400


def sent(api: Any, error: Exception | None) -> list[dict[str, Any]]:
    """What a stream sends that begins late, or fails late."""
    messages: list[dict[str, Any]] = []

    async def pieces() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await asyncio.sleep(0.05)
        yield b"data: 2\n\n"

    async def beginning() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.05)
        if error is not None:
            raise error
        return pieces()

    async def send(message: Any) -> None:
        messages.append(message)

    async def run() -> None:
        begun = asyncio.ensure_future(beginning())
        stream = event_stream.EventStream(begun, {"x-a": "b"}, api.passed_stream().end)
        await stream.stream_response(send)

    asyncio.run(run())
    return messages


def test_a_late_beginning_and_a_late_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.02)
    head, *bodies = sent(chat.API, None)
    assert head["status"] == 200 and (b"x-a", b"b") in head["headers"]
    said = [message["body"] for message in bodies]
    ping = event_stream.PING
    first, second = said.index(b"data: 1\n\n"), said.index(b"data: 2\n\n")
    assert set(said[:first]) == {ping} == set(said[first + 1 : second])
    assert said[second + 1 :] == [b""] and bodies[-1]["more_body"] is False


@pytest.mark.parametrize(
    "error", [ApiError(400, "no"), InvalidGuide("no", param="guide"), KeyError("no")], ids=repr
)
@pytest.mark.parametrize("api", [chat.API, responses.API, anthropic.API], ids=lambda one: one.path)
def test_a_late_error_is_an_event(
    monkeypatch: pytest.MonkeyPatch, api: Any, error: Exception
) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.02)
    messages = sent(api, error)
    text = b"".join(message.get("body", b"") for message in messages).decode()
    assert messages[0]["status"] == 200 and text.startswith(": waiting")
    events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    words = "failed to answer" if isinstance(error, KeyError) else 'no"'
    assert words in events[0] and json.loads(events[0])
    assert text.endswith("data: [DONE]\n\n") == (api is chat.API)
    monkeypatch.setattr(event_stream, "PING_S", 9)
    with pytest.raises(type(error)):
        sent(api, error)


def test_a_comment_does_not_count_among_the_events_of_a_response() -> None:
    passed = responses.API.passed_stream()
    passed.take(b'event: a\ndata: {"type": "a", "sequence_number": 3}\n\n')
    passed.take(event_stream.PING)
    assert next(passed.failed(ApiError(500, "x")))["sequence_number"] == 4
