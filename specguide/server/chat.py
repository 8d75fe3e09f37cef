"""Owns /v1/chat/completions: from a conversation to an answer with text and tool calls, whole or in
chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.api import Api, JsonObject, Renderer
from specguide.server.backend import Backend
from specguide.server.conversation import conversation_task
from specguide.server.events import CallBegin, End, Event, Reasoned, Said, Spans, Text
from specguide.server.guides import guide_of, response_format_guide, schema_rules
from specguide.server.messages import template_messages
from specguide.server.openai_objects import ChunkUsage, span_objects, token_score, usage_object
from specguide.server.prompt import Conversation
from specguide.server.request_ids import answer_id
from specguide.server.requests import ChatRequest
from specguide.server.task import Task
from specguide.server.tools import OF_OPENAI, ToolFields


def parse(backend: Backend, body: ChatRequest) -> Task:
    """Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    if body.top_logprobs and not body.logprobs:
        raise InvalidParams("top_logprobs needs logprobs: true", param="top_logprobs")
    limits = [one for one in (body.max_tokens, body.max_completion_tokens) if one is not None]
    rules = schema_rules(backend.config, body)
    asked = response_format_guide(body.response_format, rules)
    answer = guide_of(body, rules, {"response_format": asked})
    task = conversation_task(
        backend,
        _modern(body),
        Conversation("messages", template_messages(body.messages)),
        answer,
        _named(body),
        n=body.n,
        max_tokens=min(limits, default=None),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
    return replace(task, returns_spans=body.return_spans)


def _modern(body: ChatRequest) -> ChatRequest:
    """The body with tools instead of functions. Raises InvalidParams."""
    if body.functions is None:
        if body.function_call not in ((None, "auto") if body.tools else (None, "auto", "none")):
            raise InvalidParams("function_call needs functions", param="function_call")
        return body
    if body.tools is not None:
        raise InvalidParams("functions is the old name of tools; give one", param="functions")
    if body.tool_choice not in (None, "auto"):
        raise InvalidParams(
            "tool_choice needs tools; of functions, function_call chooses", param="tool_choice"
        )
    choice = body.function_call
    if isinstance(choice, dict):
        choice = {"type": "function", "function": choice}
    tools = [{**function, "type": "function"} for function in body.functions]
    legacy = {"tools": tools, "tool_choice": choice, "parallel_tool_calls": False}
    return body.model_copy(update=legacy)


def _named(body: ChatRequest) -> ToolFields:
    if body.functions is None:
        return OF_OPENAI
    return ToolFields([f"functions[{index}]" for index in range(len(body.functions))])


_NOT_ENDED: JsonObject = {"finish_reason": None}


@dataclass
class Choice:
    """One sample as it is written.

    is_legacy:     its call is told as `function_call`
    spans:         None: not asked for
    finish_reason: OpenAI's; None until it has ended
    stop_reason:   as vLLM's: the stop string or the id of `stop_token_ids` that ended it
    """

    index: int
    is_legacy: bool = False
    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[JsonObject] = field(default_factory=list)
    spans: list[JsonObject] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    def add(self, event: Said) -> JsonObject:
        """What an event adds, as OpenAI's delta."""
        if isinstance(event, Reasoned):
            self.reasoning += event.text
            return _reasoned(event.text)
        if isinstance(event, Text):
            self.content += event.text
            return {"content": event.text} if event.text else {}
        if isinstance(event, CallBegin):
            function = {"name": event.name, "arguments": ""}
            call = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self.calls.append({**call, "function": {**function}})
            return self._called({"index": event.index, **call, "function": function})
        self.calls[event.index]["function"]["arguments"] += event.text
        return self._called({"index": event.index, "function": {"arguments": event.text}})

    def _called(self, call: JsonObject) -> JsonObject:
        return {"function_call": call["function"]} if self.is_legacy else {"tool_calls": [call]}

    def end(self, end: End) -> JsonObject:
        """No more will come; why, as it is told."""
        called = "function_call" if self.is_legacy else "tool_calls"
        is_call = end.finish_reason == "stop" and self.calls
        self.finish_reason = called if is_call else end.finish_reason
        self.stop_reason = end.stop_reason
        return self._why()

    def _why(self) -> JsonObject:
        return {"finish_reason": self.finish_reason, "stop_reason": self.stop_reason}

    def told(self) -> JsonObject:
        """The whole, once it has ended."""
        message: JsonObject = {
            "role": "assistant",
            "content": self.content or (None if self.calls else ""),
            "refusal": None,
        }
        if self.reasoning:
            message |= _reasoned(self.reasoning)
        if self.calls and self.is_legacy:
            message["function_call"] = self.calls[0]["function"]
        elif self.calls:
            message["tool_calls"] = self.calls
        return {
            "index": self.index,
            "message": message,
            **self._why(),
            "logprobs": _logprobs(self.logprobs),
            **({} if self.spans is None else {"spans": self.spans}),
        }


class ChatRenderer(Renderer[ChatRequest]):
    """Tells all choices: the role, with the first event, for the first chunk is taken for the first
    token's time; then what is new, each choice's finish_reason, and the usage if it is asked
    for."""

    last_line = b"data: [DONE]\n\n"

    def __init__(self, body: ChatRequest, task: Task) -> None:
        super().__init__(body, task)
        self._head = {
            "id": answer_id("chatcmpl"),
            "created": int(time.time()),
            "model": task.model,
        }
        is_legacy = body.functions is not None
        self._choices = [
            Choice(index, is_legacy, spans=[] if task.returns_spans else None)
            for index in range(task.num_samples)
        ]
        self._chunk_usage = ChunkUsage(body.stream_options, self.usage)
        self._has_begun = False

    def take(self, event: Event) -> Iterable[JsonObject]:
        if not self._has_begun:
            self._has_begun = True
            for choice in self._choices:
                yield self._chunk(choice.index, {"role": "assistant", "content": ""})
        if isinstance(event, Said):
            choice = self._choices[event.sample]
            scores = [token_score(score) for score in event.scores]
            if not self.body.stream:  # else they were told, and are not told again
                choice.logprobs += scores
            yield self._chunk(event.sample, choice.add(event), scores)
        elif isinstance(event, Spans):
            yield self._spanned(self._choices[event.sample], event)
        elif isinstance(event, End):
            choice = self._choices[event.sample]
            yield self._chunk(event.sample, {}, why=choice.end(event))

    def end(self) -> Iterator[JsonObject]:
        if self._chunk_usage.is_told:
            head = {**self._head, "object": "chat.completion.chunk"}
            yield {**head, "choices": [], "usage": usage_object(self.usage)}

    def whole(self) -> JsonObject:
        """The completion object."""
        return {
            **self._head,
            "object": "chat.completion",
            "usage": usage_object(self.usage),
            "choices": [choice.told() for choice in self._choices],
        }

    def _spanned(self, choice: Choice, event: Spans) -> JsonObject:
        spans = span_objects(event.spans)
        if choice.spans is not None and not self.body.stream:
            choice.spans += spans
        chunk = self._chunk(choice.index, {})
        chunk["choices"][0]["spans"] = spans
        return chunk

    def _chunk(
        self,
        index: int,
        delta: JsonObject,
        scores: Sequence[JsonObject] = (),
        why: JsonObject = _NOT_ENDED,
    ) -> JsonObject:
        choice = {
            "index": index,
            "delta": delta,
            **why,
            "logprobs": _logprobs(scores),
        }
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [choice],
            **self._chunk_usage.told(),
        }


def _reasoned(text: str) -> JsonObject:
    """Reasoning, which OpenAI's API has not, by both names that clients know: DeepSeek's, which
    SGLang took on, and that of newer releases of vLLM."""
    return {"reasoning_content": text, "reasoning": text}


def _logprobs(scores: Sequence[JsonObject]) -> JsonObject | None:
    return {"content": scores, "refusal": None} if scores else None


API = Api(
    "/v1/chat/completions",
    "Answer a conversation, as OpenAI's API does.",
    ChatRequest,
    parse,
    ChatRenderer,
)
