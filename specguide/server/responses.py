"""Owns /v1/responses: from input items to a response of messages and function calls, whole or in
events."""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from specguide.engine import RequestDelta
from specguide.errors import InvalidParams
from specguide.server.backend import Backend
from specguide.server.errors import ApiError
from specguide.server.guides import guide_of, text_format_guide
from specguide.server.requests import ResponsesRequest
from specguide.server.responses_input import input_messages
from specguide.server.responses_items import Call, Message, Told
from specguide.server.sample_reader import Piece, SampleReader, Score
from specguide.server.tool_parser import CallBegin, Text
from specguide.server.tools import function_of
from specguide.server.turn import Turn, turn_of

_LOGPROBS = "message.output_text.logprobs"
_STORED = "nothing is stored here: send the whole conversation as input"
_REFUSED = {
    "previous_response_id": _STORED,
    "conversation": _STORED,
    "prompt": _STORED,
    "background": "leave it out, and stream instead",
    "truncation": "a conversation is never cut: leave it out, and send a shorter input",
    "reasoning": "this model does not reason apart from its text: leave it out",
}
_ECHOED = (
    "instructions",
    "metadata",
    "tools",
    "tool_choice",
    "text",
    "max_output_tokens",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)


def understand(backend: Backend, body: ResponsesRequest) -> Answer:
    """What will be the answer to `turn`. Raises ApiError, InvalidParams and InvalidGuide, which
    name the field."""
    for name, advice in _REFUSED.items():
        value = getattr(body, name)
        asked = any(one is not None for one in value.values()) if isinstance(value, dict) else value
        if asked and asked != "disabled":
            raise InvalidParams(
                f"{name} = {json.dumps(value)} is not supported; {advice}", param=name
            )
    for index, included in enumerate(body.include or ()):
        if included != _LOGPROBS:
            raise InvalidParams(
                f"{included!r} cannot be included; {_LOGPROBS!r} can", param=f"include[{index}]"
            )
    if body.top_logprobs and not body.include:
        raise InvalidParams(f'top_logprobs needs include: ["{_LOGPROBS}"]', param="top_logprobs")
    answer = guide_of(
        body, {"text.format": text_format_guide(body.text.format if body.text else None)}
    )
    turn = turn_of(
        backend,
        body,
        ("input", input_messages(body.instructions, body.input)),
        answer,
        max_tokens=body.max_output_tokens,
        logprobs=(body.top_logprobs or 0) if body.include else None,
    )
    return Answer(backend, turn, body)


class Answer:
    """The response to a turn, which grows item by item."""

    def __init__(self, backend: Backend, turn: Turn, body: ResponsesRequest) -> None:
        self.turn, self._reader = turn, SampleReader(backend, turn)
        self._items: list[Message | Call] = []
        self._scores: list[Score] = []
        self._num_cached = 0
        self._head = {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time.time()),
            "model": backend.config.model_name,
            **_echo(body, turn),
        }

    async def whole(self, deltas: AsyncIterator[RequestDelta]) -> dict[str, Any]:
        """The response object. Raises ApiError."""
        async for _ in self._told(deltas):
            pass
        return self._response(self._status)

    async def events(self, deltas: AsyncIterator[RequestDelta]) -> AsyncIterator[dict[str, Any]]:
        """Numbered events; an error is two, the second of them with the response as far as it
        came."""
        numbers = itertools.count()
        for kind in ("created", "in_progress"):
            yield {
                "type": f"response.{kind}",
                "sequence_number": next(numbers),
                "response": self._response("in_progress"),
            }
        try:
            async for told in self._told(deltas):
                yield {**told, "sequence_number": next(numbers)}
        except ApiError as error:
            yield {
                "type": "error",
                "sequence_number": next(numbers),
                "code": error.code or error.kind,
                "message": str(error),
                "param": error.param,
            }
            yield {
                "type": "response.failed",
                "sequence_number": next(numbers),
                "response": self._response("failed", error),
            }
            return
        yield {
            "type": f"response.{self._status}",
            "sequence_number": next(numbers),
            "response": self._response(self._status),
        }

    @property
    def _status(self) -> str:
        """Of a response that has ended, and of its last item."""
        return "completed" if self._reader.finish_reason == "stop" else "incomplete"

    async def _told(self, deltas: AsyncIterator[RequestDelta]) -> AsyncIterator[Told]:
        async for delta in deltas:
            for piece in self._reader.read(delta):
                for told in self._take(piece):
                    yield told
            if delta.metrics is not None:
                self._num_cached = delta.metrics.num_cached
        if not self._items:
            for told in self._begin(Message(0)):
                yield told
        last = self._items[-1]
        if isinstance(last, Message):
            last.logprobs += self._scores
        for told in last.end(self._status):
            yield told

    def _take(self, piece: Piece) -> Iterator[Told]:
        self._scores += piece.scores
        for event in piece.events:
            last = self._items[-1] if self._items else None
            if isinstance(event, Text):
                if not isinstance(last, Message):
                    yield from self._begin(last := Message(len(self._items)))
                yield last.add(event.text, self._scores)
            elif isinstance(event, CallBegin):
                yield from self._begin(Call(len(self._items), event.name))
            elif isinstance(last, Call):
                yield last.add(event.text)
            self._scores = []

    def _begin(self, item: Message | Call) -> Iterator[Told]:
        if self._items:
            yield from self._items[-1].end("completed")
        self._items.append(item)
        yield from item.begin()

    def _response(self, status: str, error: ApiError | None = None) -> dict[str, Any]:
        if error is not None and self._items:
            self._items[-1].status = "incomplete"
        prompt, output = len(self.turn.prompt_ids), self._reader.num_tokens
        usage = {
            "input_tokens": prompt,
            "output_tokens": output,
            "total_tokens": prompt + output,
            "input_tokens_details": {"cached_tokens": self._num_cached, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        is_cut = self._reader.finish_reason == "length"
        return {
            **self._head,
            "status": status,
            "output": [item.item() for item in self._items],
            "completed_at": int(time.time()) if status == "completed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None
            if error is None
            else {
                "message": str(error),
                "code": (
                    "invalid_prompt" if error.kind == "invalid_request_error" else "server_error"
                ),
            },
            "usage": None if status == "in_progress" else usage,
        }


def _echo(body: ResponsesRequest, turn: Turn) -> dict[str, Any]:
    """What was asked, as it was understood. Raises InvalidParams for what cannot be told again."""
    asked = {name: _sendable(body, name) for name in _ECHOED}
    asked["tools"] = [
        {
            "type": "function",
            "description": None,
            "parameters": None,
            "strict": False,
            **function_of(tool),
        }
        for tool in asked["tools"] or ()
    ]
    asked["text"] = {"format": {"type": "text"}, **(asked["text"] or {})}
    return {
        **asked,
        "metadata": asked["metadata"] or {},
        "tool_choice": asked["tool_choice"] or "auto",
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "temperature": turn.params.temperature,
        "top_p": turn.params.top_p,
        "top_logprobs": body.top_logprobs or 0,
        "store": False,
        "background": False,
        "previous_response_id": None,
        "truncation": "disabled",
        "service_tier": "default",
        "reasoning": {"effort": None, "summary": None},
    }


def _sendable(body: ResponsesRequest, name: str) -> Any:
    try:
        return json.loads(
            body.model_dump_json(include={name}, by_alias=True, exclude_none=True)
        ).get(name)
    except (ValueError, RecursionError):
        raise InvalidParams(
            f"{name} has text that is not Unicode, or is nested too deeply", param=name
        ) from None


async def lines(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    """Events as server-sent events that have their type as a name."""
    async for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
