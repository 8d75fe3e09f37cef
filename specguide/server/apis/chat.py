"""Owns /v1/chat/completions: from a conversation to an answer with text and tool calls, whole or in
chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from specguide.errors import InvalidParams
from specguide.server.apis.api import Api, JsonObject, Renderer
from specguide.server.apis.chat_choices import Choice, logprobs_object
from specguide.server.apis.openai_objects import (
    ChunkUsage,
    prompt_logprobs,
    span_objects,
    token_score,
    usage_object,
)
from specguide.server.apis.returned_ids import ReturnedIds
from specguide.server.bodies.requests import ChatRequest
from specguide.server.http.request_ids import answer_id
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.conversation import conversation_task
from specguide.server.tasks.events import End, Event, PromptScores, Said, Spans, Tokens
from specguide.server.tasks.guides import guide_of, response_format_guide, schema_rules
from specguide.server.tasks.messages import template_messages
from specguide.server.tasks.prompt import Conversation
from specguide.server.tasks.task import Task
from specguide.server.tasks.tools import OF_OPENAI, ToolFields


def parse(backend: Backend, body: ChatRequest) -> Task:
    """The task of a body. Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    if body.top_logprobs and not body.logprobs:
        raise InvalidParams("top_logprobs needs logprobs: true", param="top_logprobs")
    named = {name: getattr(body, name) for name in ("max_tokens", "max_completion_tokens")}
    limits = {name: most for name, most in named.items() if most is not None}
    rules = schema_rules(backend.config, body)
    asked = response_format_guide(body.response_format, rules)
    answer = guide_of(body, rules, {"response_format": asked})
    body.check_whole(body.stream)
    conversation = _conversation(backend, body)
    task = conversation_task(
        backend,
        _modern(body),
        conversation,
        answer,
        _named(body),
        n=body.n,
        max_tokens=min(limits.values(), default=None),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        prompt_logprobs=body.prompt_logprobs,
    )
    last = conversation.messages[-1]
    is_echoed = body.echo and last["role"] == "assistant" and last["content"]
    text = backend.text_of(task.prompts[0], "messages") if body.return_prompt_text else None
    return replace(
        task,
        returns_spans=body.return_spans,
        echoed=(last["content"],) if is_echoed else (),
        prompt_text=text,
        limit_param=min(limits, key=limits.__getitem__, default="max_tokens"),
    )


def _conversation(backend: Backend, body: ChatRequest) -> Conversation:
    """The conversation and how it is continued. Raises InvalidParams."""
    if not (body.add_generation_prompt or body.continue_final_message):
        raise InvalidParams(
            "add_generation_prompt may be false only with continue_final_message: true; leave "
            "add_generation_prompt out, or give both",
            param="add_generation_prompt",
        )
    images = backend.tokenizer.image_parts()
    messages = template_messages(body.messages, images)
    return Conversation.of(body, messages)._replace(cut=body, images=images)


def _modern(body: ChatRequest) -> ChatRequest:
    """The body with tools instead of functions. Raises InvalidParams."""
    if body.functions is None:
        if body.function_call not in ((None, "auto") if body.tools else (None, "auto", "none")):
            raise InvalidParams("function_call needs functions", param="function_call")
        return body
    if body.tools is not None:
        raise InvalidParams(
            "functions is the old name of tools; give only one of them", param="functions"
        )
    if body.tool_choice not in (None, "auto"):
        raise InvalidParams(
            "tool_choice needs tools; with functions, use function_call", param="tool_choice"
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


class ChatRenderer(Renderer[ChatRequest]):
    """Writes all choices: first the role, together with the first event, since clients measure the
    time to first token by the first chunk; then new text and calls, each choice's finish_reason,
    and the usage if it was asked for."""

    last_line = b"data: [DONE]\n\n"

    def __init__(self, body: ChatRequest, task: Task) -> None:
        super().__init__(body, task)
        self._head = {
            "id": answer_id("chatcmpl"),
            "created": int(time.time()),
            "model": task.model,
        }
        is_shown = task.reasoning is None or task.reasoning.is_shown
        self._tells_ids = bool(body.return_token_ids) and is_shown
        self._choices = [self._choice(index) for index in range(task.num_samples)]
        self._prompt_logprobs: list[JsonObject | None] = []
        self._chunk_usage = ChunkUsage(body.stream_options, self.usage)
        self._has_begun = False

    def _choice(self, index: int) -> Choice:
        return Choice(
            index,
            ReturnedIds(self._tells_ids, bool(self.body.stream)),
            is_legacy=self.body.functions is not None,
            content="".join(self.task.echoed),
            spans=[] if self.task.returns_spans else None,
        )

    def take(self, event: Event) -> Iterable[JsonObject]:
        if not self._has_begun:
            self._has_begun = True
            yield from self._begun()
        if isinstance(event, PromptScores):
            self._prompt_logprobs = prompt_logprobs(event.scores)
        elif isinstance(event, Tokens):
            self._choices[event.sample].ids.add(event.token_ids)
        elif isinstance(event, Said):
            choice = self._choices[event.sample]
            as_id = bool(self.body.return_tokens_as_token_ids)
            scores = [token_score(score, as_id=as_id) for score in event.scores]
            if not self.body.stream:  # a stream has sent them already
                choice.logprobs += scores
            yield self._chunk(event.sample, choice.add(event), scores)
        elif isinstance(event, Spans):
            yield self._spanned(self._choices[event.sample], event)
        elif isinstance(event, End):
            choice = self._choices[event.sample]
            yield self._chunk(event.sample, {}, why=choice.end(event))

    def _begun(self) -> Iterator[JsonObject]:
        """The chunks before all others."""
        for choice in self._choices:
            chunk = self._chunk(choice.index, {"role": "assistant", "content": ""})
            yield chunk | self._prompt_fields()
        for choice in self._choices:
            if choice.content:
                yield self._chunk(choice.index, {"content": choice.content})

    def _prompt_fields(self) -> JsonObject:
        ids = {"prompt_token_ids": self.task.prompts[0]} if self._tells_ids else {}
        text = self.task.prompt_text
        return ids if text is None else {**ids, "prompt_text": text}

    def end(self) -> Iterator[JsonObject]:
        if self._chunk_usage.in_last_chunk:
            head = {**self._head, "object": "chat.completion.chunk"}
            yield {**head, "choices": [], "usage": usage_object(self.usage)}

    def whole(self) -> JsonObject:
        """The completion object."""
        asked = self.body.prompt_logprobs
        return {
            **self._head,
            "object": "chat.completion",
            "usage": usage_object(self.usage),
            "choices": [choice.whole() for choice in self._choices],
            **self._prompt_fields(),
            **({} if asked is None else {"prompt_logprobs": self._prompt_logprobs}),
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
            "logprobs": logprobs_object(scores),
            **self._choices[index].ids.more(),
        }
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [choice],
            **self._chunk_usage.fields(),
        }


API = Api(
    "/v1/chat/completions",
    "Answer a conversation, as OpenAI's API does.",
    ChatRequest,
    parse,
    ChatRenderer,
)
