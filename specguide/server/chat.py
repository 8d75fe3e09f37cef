"""Owns /v1/chat/completions: from a conversation to an answer with text and tool calls, whole or in chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from specguide.engine import RequestDelta
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.params import SamplingParams
from specguide.request import Logprob
from specguide.server.backend import Backend
from specguide.server.guides import guide_of
from specguide.server.messages import template_messages
from specguide.server.requests import ChatRequest
from specguide.server.tool_choice import ToolChoice
from specguide.server.tool_format import ToolFormat
from specguide.server.tool_guide import tools_of
from specguide.server.tool_parser import CallBegin, Event, Text, ToolCallParser
from specguide.server.visible import VisibleText
from specguide.tokenizer import Tokenizer


@dataclass(frozen=True)
class Turn:
    """A request that has been understood. tool_format: None where no tool may be called"""

    prompt_ids: list[int]
    params: SamplingParams
    tool_format: ToolFormat | None


def understand(backend: Backend, body: ChatRequest) -> Turn:
    """Raises InvalidParams and InvalidGuide, which name the field."""
    backend.check_model(body.model)
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidParams("top_logprobs needs logprobs: true", param="top_logprobs")
    answer = guide_of(body, body.response_format)
    choice = ToolChoice.of(body.tool_choice, tools_of(body.tools or ()))
    tool_format, guide = None, answer
    if choice is not None:
        tool_format = backend.tool_format
        guide = choice.guide(tool_format, backend.special_token, backend.limits, answer=answer,
                             is_parallel=body.parallel_tool_calls is not False)
    prompt_ids = _prompt(backend, body, answer)
    backend.check_prompt_ids(prompt_ids, "messages")
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidParams("max_tokens is the old name of max_completion_tokens; give one", param="max_tokens")
    room = max(1, backend.engine.max_model_len - len(prompt_ids))
    max_tokens = next((n for n in (body.max_completion_tokens, body.max_tokens) if n is not None), room)
    params = body.sampling(max_tokens=max_tokens, guide=guide,
                           logprobs=(body.top_logprobs or 0) if body.logprobs else None)
    return Turn(prompt_ids, params, tool_format)


def _prompt(backend: Backend, body: ChatRequest, answer: Guide | None) -> list[int]:
    variables = body.chat_template_kwargs or {}
    taken = next((name for name in ("messages", "tools", "json_schema", "tokenize") if name in variables), None)
    if taken is not None:
        raise InvalidParams(f"{taken} is not a variable that chat_template_kwargs may set",
                            param=f"chat_template_kwargs.{taken}")
    messages = template_messages(body.messages)
    backend.check_prompt(sum(len(message["content"] or "") for message in messages), "messages")
    return backend.tokenizer.apply_chat_template(
        messages, tools=body.tools if body.tools and body.tool_choice != "none" else None,
        json_schema=answer.source() if answer is not None and answer.kind == "json_schema" else None, **variables)


@dataclass
class Sample:
    """One choice of an answer as it is written."""

    index: int
    tokenizer: Tokenizer
    parser: ToolCallParser | None
    visible: VisibleText | None
    num_rivals: int
    num_tokens: int = 0
    finish_reason: str | None = None
    content: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    def take(self, delta: RequestDelta) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        """What a delta adds, as OpenAI's deltas, and its log-probabilities."""
        self.num_tokens += len(delta.token_ids)
        events: list[Event] = [Text(delta.text)] if delta.text else []
        if self.parser is not None and self.visible is not None:
            is_last = delta.finish_reason is not None
            events = self.parser.feed(self.visible.add(delta.token_ids, is_last=is_last))
            events += self.parser.finish() if is_last else []
        if delta.finish_reason is not None:
            has_calls = bool(self.parser and self.parser.num_calls) and delta.finish_reason == "stop"
            self.finish_reason = "tool_calls" if has_calls else delta.finish_reason
        scores = None
        if delta.logprobs is not None:
            scores = [token_score(self.tokenizer, token, entry, self.num_rivals)
                      for token, entry in zip(delta.token_ids, delta.logprobs, strict=True)]
            self.logprobs += scores
        return [self._told(event) for event in events], scores

    def _told(self, event: Event) -> dict[str, Any]:
        if isinstance(event, Text):
            self.content += event.text
            return {"content": event.text}
        if isinstance(event, CallBegin):
            call = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self.calls.append({**call, "function": {"name": event.name, "arguments": ""}})
            return {"tool_calls": [{"index": event.index, **call, "function": {"name": event.name, "arguments": ""}}]}
        self.calls[event.index]["function"]["arguments"] += event.text
        return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}

    def choice(self) -> dict[str, Any]:
        """The whole, once it has ended."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content or (None if self.calls else ""),
                                   "refusal": None}
        if self.calls:
            message["tool_calls"] = self.calls
        return {"index": self.index, "message": message, "finish_reason": self.finish_reason,
                "logprobs": {"content": self.logprobs, "refusal": None} if self.logprobs else None}


class Answer:
    """All choices of a turn."""

    def __init__(self, backend: Backend, turn: Turn) -> None:
        self._turn, self._model = turn, backend.config.model_name
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": self._model}
        tool_format = turn.tool_format
        self.samples = [Sample(index, backend.tokenizer,
                               None if tool_format is None else ToolCallParser(tool_format),
                               None if tool_format is None else VisibleText(
                                   backend.tokenizer, special_ids(backend, tool_format)), turn.params.logprobs or 0)
                        for index in range(turn.params.n)]

    def usage(self) -> dict[str, Any]:
        """Tokens of prompt and answers."""
        prompt, completion = len(self._turn.prompt_ids), sum(sample.num_tokens for sample in self.samples)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    async def whole(self, deltas: AsyncIterator[RequestDelta]) -> dict[str, Any]:
        """The completion object."""
        async for delta in deltas:
            self.samples[delta.index].take(delta)
        return {**self._head, "object": "chat.completion", "usage": self.usage(),
                "choices": [sample.choice() for sample in self.samples]}

    async def chunks(self, deltas: AsyncIterator[RequestDelta], *, include_usage: bool
                     ) -> AsyncIterator[dict[str, Any]]:
        """Chunk objects: the role first, then what is new, each choice's finish_reason, and the usage if asked for."""
        for sample in self.samples:
            yield self._chunk(sample.index, {"role": "assistant", "content": ""}, include_usage=include_usage)
        async for delta in deltas:
            sample = self.samples[delta.index]
            told, scores = sample.take(delta)
            for number, one in enumerate(told or ([{}] if scores else [])):
                yield self._chunk(delta.index, one, scores if number == 0 else None, include_usage=include_usage)
            if sample.finish_reason is not None:
                yield self._chunk(delta.index, {}, finish_reason=sample.finish_reason, include_usage=include_usage)
        if include_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self.usage()}

    def _chunk(self, index: int, delta: dict[str, Any], scores: list[dict[str, Any]] | None = None, *,
               finish_reason: str | None = None, include_usage: bool) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish_reason,
                  "logprobs": {"content": scores, "refusal": None} if scores else None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice],
                **({"usage": None} if include_usage else {})}


def special_ids(backend: Backend, tool_format: ToolFormat) -> list[int]:
    """Of the format's marks, those that are special tokens."""
    ids = [backend.special_token(mark) for mark in tool_format.special_tokens]
    return [token for token in ids if token is not None]


def token_score(tokenizer: Tokenizer, token: int, entry: dict[int, Logprob], num_rivals: int) -> dict[str, Any]:
    """A token's log-probability and those of the likeliest ones, as OpenAI has them."""
    def named(one: int) -> dict[str, Any]:
        text = tokenizer.decode([one], skip_special_tokens=False)
        return {"token": text, "logprob": entry[one].logprob, "bytes": list(text.encode())}

    rivals = sorted(entry, key=lambda one: -entry[one].logprob)[:num_rivals]
    return {**named(token), "top_logprobs": [named(one) for one in rivals]}
