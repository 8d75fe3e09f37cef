"""Owns /v1/chat/completions: from a conversation to an answer with text and tool calls, whole or in
chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from specguide.engine import RequestDelta
from specguide.errors import InvalidParams
from specguide.server.backend import Backend
from specguide.server.guides import guide_of, response_format_guide
from specguide.server.messages import template_messages
from specguide.server.requests import ChatRequest
from specguide.server.sample_reader import SampleReader, Score
from specguide.server.tool_parser import CallBegin, Event, Text
from specguide.server.turn import Turn, turn_of


def understand(backend: Backend, body: ChatRequest) -> Turn:
    """Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidParams("top_logprobs needs logprobs: true", param="top_logprobs")
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidParams(
            "max_tokens is the old name of max_completion_tokens; give one", param="max_tokens"
        )
    answer = guide_of(body, {"response_format": response_format_guide(body.response_format)})
    return turn_of(
        backend,
        body,
        ("messages", template_messages(body.messages)),
        answer,
        n=body.n,
        max_tokens=body.max_tokens
        if body.max_completion_tokens is None
        else body.max_completion_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )


@dataclass
class Sample:
    """One choice of an answer as it is written."""

    index: int
    reader: SampleReader
    content: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[Score] = field(default_factory=list)

    @property
    def finish_reason(self) -> str | None:
        """OpenAI's; None until it has ended."""
        reason = self.reader.finish_reason
        return "tool_calls" if reason == "stop" and self.reader.num_calls else reason

    def take(self, delta: RequestDelta) -> list[tuple[dict[str, Any], list[Score]]]:
        """What a delta adds, as OpenAI's deltas, each with the log-probabilities that go with
        it."""
        taken: list[tuple[dict[str, Any], list[Score]]] = []
        for piece in self.reader.read(delta):
            self.logprobs += piece.scores
            told = [self._told(event) for event in piece.events] or ([{}] if piece.scores else [])
            taken += [(one, [] if number else piece.scores) for number, one in enumerate(told)]
        return taken

    def _told(self, event: Event) -> dict[str, Any]:
        if isinstance(event, Text):
            self.content += event.text
            return {"content": event.text}
        if isinstance(event, CallBegin):
            call = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self.calls.append({**call, "function": {"name": event.name, "arguments": ""}})
            return {
                "tool_calls": [
                    {
                        "index": event.index,
                        **call,
                        "function": {"name": event.name, "arguments": ""},
                    }
                ]
            }
        self.calls[event.index]["function"]["arguments"] += event.text
        return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}

    def choice(self) -> dict[str, Any]:
        """The whole, once it has ended."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.content or (None if self.calls else ""),
            "refusal": None,
        }
        if self.calls:
            message["tool_calls"] = self.calls
        return {
            "index": self.index,
            "message": message,
            "finish_reason": self.finish_reason,
            "logprobs": {"content": self.logprobs, "refusal": None} if self.logprobs else None,
        }


class Answer:
    """All choices of a turn."""

    def __init__(self, backend: Backend, turn: Turn) -> None:
        self._turn, self._model = turn, backend.config.model_name
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": self._model,
        }
        self.samples = [
            Sample(index, SampleReader(backend, turn)) for index in range(turn.params.n)
        ]

    def usage(self) -> dict[str, Any]:
        """Tokens of prompt and answers."""
        prompt, completion = (
            len(self._turn.prompt_ids),
            sum(sample.reader.num_tokens for sample in self.samples),
        )
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    async def whole(self, deltas: AsyncIterator[RequestDelta]) -> dict[str, Any]:
        """The completion object."""
        async for delta in deltas:
            self.samples[delta.index].take(delta)
        return {
            **self._head,
            "object": "chat.completion",
            "usage": self.usage(),
            "choices": [sample.choice() for sample in self.samples],
        }

    async def chunks(
        self, deltas: AsyncIterator[RequestDelta], *, include_usage: bool
    ) -> AsyncIterator[dict[str, Any]]:
        """Chunk objects: the role first, then what is new, each choice's finish_reason, and the
        usage if asked for."""
        for sample in self.samples:
            yield self._chunk(
                sample.index, {"role": "assistant", "content": ""}, include_usage=include_usage
            )
        async for delta in deltas:
            sample = self.samples[delta.index]
            for told, scores in sample.take(delta):
                yield self._chunk(delta.index, told, scores, include_usage=include_usage)
            if sample.finish_reason is not None:
                yield self._chunk(
                    delta.index, {}, finish_reason=sample.finish_reason, include_usage=include_usage
                )
        if include_usage:
            yield {
                **self._head,
                "object": "chat.completion.chunk",
                "choices": [],
                "usage": self.usage(),
            }

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        scores: list[Score] | None = None,
        *,
        finish_reason: str | None = None,
        include_usage: bool,
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "delta": delta,
            "finish_reason": finish_reason,
            "logprobs": {"content": scores, "refusal": None} if scores else None,
        }
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [choice],
            **({"usage": None} if include_usage else {}),
        }
