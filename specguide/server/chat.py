"""Owns /v1/chat/completions: from a conversation to an answer with text and tool calls, whole or in
chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.api import Api, Renderer, Told
from specguide.server.backend import Backend
from specguide.server.conversation import conversation_task
from specguide.server.events import Arguments, CallBegin, End, Event, Reasoned, Said, Text
from specguide.server.guides import guide_of, response_format_guide
from specguide.server.messages import template_messages
from specguide.server.openai_objects import token_score, usage_object
from specguide.server.requests import ChatRequest
from specguide.server.task import Task


def parse(backend: Backend, body: ChatRequest) -> Task:
    """Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidParams("top_logprobs needs logprobs: true", param="top_logprobs")
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidParams(
            "max_tokens is the old name of max_completion_tokens; give one", param="max_tokens"
        )
    answer = guide_of(body, {"response_format": response_format_guide(body.response_format)})
    return conversation_task(
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
class Choice:
    """One sample as it is written. finish_reason: OpenAI's; None until it has ended"""

    index: int
    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[Told] = field(default_factory=list)
    finish_reason: str | None = None

    def add(self, event: Said) -> Told:
        """What an event adds, as OpenAI's delta; reasoning is where others have it."""
        if isinstance(event, Reasoned):
            self.reasoning += event.text
            return {"reasoning_content": event.text}
        if isinstance(event, Text):
            self.content += event.text
            return {"content": event.text} if event.text else {}
        if isinstance(event, CallBegin):
            call = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self.calls.append({**call, "function": {"name": event.name, "arguments": ""}})
            begun = {"index": event.index, **call}
            return {"tool_calls": [{**begun, "function": {"name": event.name, "arguments": ""}}]}
        self.calls[event.index]["function"]["arguments"] += event.text
        return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}

    def end(self, reason: str) -> None:
        """No more comes."""
        self.finish_reason = "tool_calls" if reason == "stop" and self.calls else reason

    def told(self) -> Told:
        """The whole, once it has ended."""
        message: Told = {
            "role": "assistant",
            "content": self.content or (None if self.calls else ""),
            "refusal": None,
        }
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        return {
            "index": self.index,
            "message": message,
            "finish_reason": self.finish_reason,
            "logprobs": _logprobs(self.logprobs),
        }


class ChatRenderer(Renderer[ChatRequest]):
    """Tells all choices: the role first, then what is new, each choice's finish_reason, and the
    usage if it is asked for."""

    last_line = b"data: [DONE]\n\n"

    def __init__(self, body: ChatRequest, task: Task) -> None:
        super().__init__(body, task)
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": task.model,
        }
        self._choices = [Choice(index) for index in range(task.num_samples)]
        options = body.stream_options
        self._tells_usage = options is not None and options.include_usage

    def begin(self) -> Iterator[Told]:
        for choice in self._choices:
            yield self._chunk(choice.index, {"role": "assistant", "content": ""})

    def take(self, event: Event) -> Iterable[Told]:
        if isinstance(event, Reasoned | Text | CallBegin | Arguments):
            choice = self._choices[event.sample]
            scores = [token_score(score) for score in event.scores]
            choice.logprobs += scores
            yield self._chunk(event.sample, choice.add(event), scores)
        elif isinstance(event, End):
            choice = self._choices[event.sample]
            choice.end(event.finish_reason)
            yield self._chunk(event.sample, {}, finish_reason=choice.finish_reason)

    def end(self) -> Iterator[Told]:
        if self._tells_usage:
            head = {**self._head, "object": "chat.completion.chunk"}
            yield {**head, "choices": [], "usage": usage_object(self.usage)}

    def whole(self) -> Told:
        """The completion object."""
        return {
            **self._head,
            "object": "chat.completion",
            "usage": usage_object(self.usage),
            "choices": [choice.told() for choice in self._choices],
        }

    def _chunk(
        self,
        index: int,
        delta: Told,
        scores: Sequence[Told] = (),
        finish_reason: str | None = None,
    ) -> Told:
        choice = {
            "index": index,
            "delta": delta,
            "finish_reason": finish_reason,
            "logprobs": _logprobs(scores),
        }
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [choice],
            **({"usage": None} if self._tells_usage else {}),
        }


def _logprobs(scores: Sequence[Told]) -> Told | None:
    return {"content": scores, "refusal": None} if scores else None


API = Api(
    "/v1/chat/completions",
    "Answer a conversation, as OpenAI's API does.",
    ChatRequest,
    parse,
    ChatRenderer,
)
