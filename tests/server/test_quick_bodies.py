"""Which bodies are understood on the event loop's thread: short ones of token ids and numbers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from specguide.server.bodies.requests import ChatRequest, CompletionRequest
from specguide.server.http.json_body import CountedRequest
from specguide.server.tasks.backend import Backend


@pytest.mark.parametrize(
    ("fields", "is_quick"),
    [
        ({"prompt": [1, 2, 3]}, True),
        ({"prompt": [1], "max_tokens": 5, "stream": True, "temperature": 0, "seed": 1}, True),
        ({"prompt": []}, True),  # refused by its name
        ({"prompt": "a text"}, False),
        ({"prompt": ["texts"]}, False),
        ({"prompt": [[1, 2], [3]]}, False),
        ({"prompt": [1], "echo": True}, False),
        ({"prompt": [1], "stop": ["a"]}, False),
        ({"prompt": [1], "guided_regex": "a*"}, False),
        ({"prompt": [1], "response_format": {"type": "json_object"}}, False),
    ],
)
def test_what_is_quick(fields: dict[str, Any], is_quick: bool) -> None:
    assert CompletionRequest.model_validate(fields).is_quick is is_quick
    assert not ChatRequest.model_validate({"messages": [{"role": "user", "content": "a"}]}).is_quick


class _Fields:
    def check(self, body: object) -> None:
        """Find nothing wrong: all fields are known."""


def backend() -> Backend:
    made = Backend.__new__(Backend)
    made._lane, made._template_lane = asyncio.Semaphore(), asyncio.Semaphore()
    made._unknown_fields = _Fields()  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(("prompt", "num_bytes"), [([1], 100), ([1], 1 << 14), ("a", 100)])
def test_only_quick_bodies_are_understood_at_once(prompt: Any, num_bytes: int) -> None:
    async def thread_of() -> threading.Thread:
        body = CompletionRequest.model_validate({"prompt": prompt})
        return await backend().understood(num_bytes, lambda *_: threading.current_thread(), body)

    is_here = asyncio.run(thread_of()) is threading.current_thread()
    assert is_here == (prompt == [1] and num_bytes == 100)


@pytest.mark.parametrize("length", [10, 1 << 14])
def test_short_json_is_parsed_at_once(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(
        "specguide.server.http.json_body._parsed",
        lambda *_: threads.append(threading.current_thread()),
    )

    class App:
        class state:
            backend = backend()

    App.state.backend.config = None  # type: ignore[assignment]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b" " * length, "more_body": False}

    asyncio.run(CountedRequest({"type": "http", "app": App}, receive).json())
    assert (threads[0] is threading.current_thread()) == (length == 10)
