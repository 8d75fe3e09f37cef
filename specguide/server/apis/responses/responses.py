"""Owns /v1/responses: from input items to a response of messages and function calls, as a whole or
in events."""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.params.rules import LEAST_TOP_P
from specguide.server.apis.api import Api, JsonObject, Renderer, check_not_aborted
from specguide.server.apis.openai_objects import token_score
from specguide.server.apis.responses.failure import PassedResponse, error_object, failure_events
from specguide.server.apis.responses.input import input_messages
from specguide.server.apis.responses.items import Call, CustomCall, Item, Message, Thought
from specguide.server.apis.responses.tools import (
    flat_functions,
    function_places,
    is_run_elsewhere,
    namespaces,
)
from specguide.server.bodies.requests import ResponsesRequest
from specguide.server.http.errors import ApiError
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.conversation import conversation_task, num_prompt_tokens
from specguide.server.tasks.custom_tools import KIND as CUSTOM
from specguide.server.tasks.events import CallBegin, End, Event, Reasoned, Said, Text
from specguide.server.tasks.guides import guide_of, schema_rules, text_format_guide
from specguide.server.tasks.prompt import Conversation
from specguide.server.tasks.reasoning import EFFORTS
from specguide.server.tasks.task import Task, Usage
from specguide.server.tasks.tools import ToolFields, function_of

_LOGPROBS = "message.output_text.logprobs"
_WITHOUT_EFFECT = frozenset(
    {
        "reasoning.encrypted_content",
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
    }
)
"""Values of `include` that are accepted, though no answer here has such data."""
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


def parse(backend: Backend, body: ResponsesRequest) -> Task:
    """The task of a body. Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    for index, included in enumerate(body.include or ()):
        if included != _LOGPROBS and included not in _WITHOUT_EFFECT:
            raise InvalidParams(
                f"include does not know {included!r}; known: {_LOGPROBS!r}",
                param=f"include[{index}]",
            )
    has_scores = _LOGPROBS in (body.include or ())
    if body.top_logprobs and not has_scores:
        raise InvalidParams(f'top_logprobs needs include: ["{_LOGPROBS}"]', param="top_logprobs")
    task = conversation_task(
        backend,
        *_asked(backend, body),
        max_tokens=body.max_output_tokens,
        logprobs=(body.top_logprobs or 0) if has_scores else None,
    )
    return replace(task, limit_param="max_output_tokens")


def count(backend: Backend, body: ResponsesRequest) -> JsonObject:
    """The number of tokens of the prompt, which may be too long for the model. Raises as `parse`
    does."""
    num_tokens = num_prompt_tokens(backend, *_asked(backend, body))
    return {"object": "response.input_tokens", "input_tokens": num_tokens}


def _asked(
    backend: Backend, body: ResponsesRequest
) -> tuple[ResponsesRequest, Conversation, Guide | None, ToolFields]:
    """The turn, its conversation, the guide of its text, and the places of its tools."""
    rules = schema_rules(backend.config, body)
    asked = text_format_guide(body.text.format if body.text else None, rules)
    images = backend.tokenizer.image_parts()
    messages = input_messages(body.instructions, body.input, images)
    return (
        _with_flat_tools(backend, body),
        Conversation("input", messages, images=images),
        guide_of(body, rules, {"text.format": asked}),
        ToolFields(function_places(body.tools or ())),
    )


def _with_flat_tools(backend: Backend, body: ResponsesRequest) -> ResponsesRequest:
    """The body with all functions at the top level, those of namespaces too. Raises
    InvalidParams."""
    if body.tools is None:
        return body
    functions = flat_functions(body.tools)
    most = backend.config.max_tools
    if len(functions) > most:
        raise InvalidParams(
            f"tools may have at most {most} entries, found {len(functions)}", param="tools"
        )
    return body.model_copy(update={"tools": functions})


class ResponseRenderer(Renderer[ResponsesRequest]):
    """Writes the response, which grows item by item, in numbered events.

    An error is two events; the second one has the response so far.
    """

    names_lines = True

    def __init__(self, body: ResponsesRequest, task: Task) -> None:
        super().__init__(body, task)
        self._items: list[Item] = []
        self._namespaces = namespaces(body.tools or ())
        self._scores: list[JsonObject] = []
        self._numbers = itertools.count()
        self._finish_reason: str | None = None
        self._head = {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time.time()),
            "model": task.model,
            **_echo(body, task),
        }

    def begin(self) -> Iterator[JsonObject]:
        for kind in ("created", "in_progress"):
            yield self._numbered(
                {"type": f"response.{kind}", "response": self._response("in_progress")}
            )

    def take(self, event: Event) -> Iterator[JsonObject]:
        if isinstance(event, Said):
            objects = self._say(event)
        elif isinstance(event, End):
            objects = self._end(event)
        else:
            return
        for one in objects:
            yield self._numbered(one)

    def end(self) -> Iterator[JsonObject]:
        kind = f"response.{self._status}"
        yield self._numbered({"type": kind, "response": self._response(self._status)})

    def failed(self, error: ApiError) -> Iterator[JsonObject]:
        for one in failure_events(error, self._response("failed", error)):
            yield self._numbered(one)

    def whole(self) -> JsonObject:
        """The response object."""
        return self._response(self._status)

    @property
    def _status(self) -> str:
        """The status of a response that has ended, and of its last item."""
        return "completed" if self._finish_reason == "stop" else "incomplete"

    def _numbered(self, one: JsonObject) -> JsonObject:
        return {**one, "sequence_number": next(self._numbers)}

    def _say(self, event: Said) -> Iterator[JsonObject]:
        self._scores += map(token_score, event.scores)
        last = self._items[-1] if self._items else None
        if isinstance(event, Reasoned):
            if not isinstance(last, Thought):
                yield from self._begin(last := Thought(len(self._items)))
            yield last.add(event.text)
        elif isinstance(event, Text):
            if not event.text:
                return
            if not isinstance(last, Message):
                yield from self._begin(last := Message(len(self._items)))
            yield last.add(event.text, self._scores)
        elif isinstance(event, CallBegin):
            yield from self._begin(self._call(event))
        elif isinstance(last, Call):
            yield last.add(event.text)
        self._scores = []

    def _call(self, event: CallBegin) -> Item:
        if event.kind == CUSTOM:
            return CustomCall(len(self._items), event.name)
        namespace, name = self._namespaces.get(event.name, (None, event.name))
        return Call(len(self._items), name, namespace)

    def _end(self, event: End) -> Iterator[JsonObject]:
        check_not_aborted(event)
        self._finish_reason = event.finish_reason
        if not self._items:
            yield from self._begin(Message(0))
        last = self._items[-1]
        if isinstance(last, Message):
            last.logprobs += self._scores
        yield from last.end(self._status)

    def _begin(self, item: Item) -> Iterator[JsonObject]:
        if self._items:
            yield from self._items[-1].end("completed")
        self._items.append(item)
        yield from item.begin()

    def _response(self, status: str, error: ApiError | None = None) -> JsonObject:
        if error is not None and self._items:
            self._items[-1].status = "incomplete"
        is_cut = self._finish_reason == "length"
        return {
            **self._head,
            "status": status,
            "output": [item.item() for item in self._items],
            "completed_at": int(time.time()) if status == "completed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None if error is None else error_object(error),
            "usage": None if status == "in_progress" else _usage_object(self.usage),
        }


def _usage_object(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.num_prompt,
        "output_tokens": usage.num_output,
        "total_tokens": usage.num_prompt + usage.num_output,
        "input_tokens_details": {"cached_tokens": usage.num_cached, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": usage.num_reasoning},
    }


def _echo(body: ResponsesRequest, task: Task) -> dict[str, Any]:
    """The request's fields that the response repeats, as they were understood. Raises InvalidParams
    for values that cannot be written as JSON."""
    asked = {name: _sendable(body, name) for name in _ECHOED}
    effort = body.effort()
    tools = asked["tools"] or ()
    asked["tools"] = [_echoed_tool(tool) for tool in tools if not is_run_elsewhere(tool)]
    asked["text"] = {"format": {"type": "text"}, **(asked["text"] or {})}
    return {
        **asked,
        "metadata": asked["metadata"] or {},
        "tool_choice": asked["tool_choice"] or "auto",
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "temperature": task.params.temperature,
        "top_p": 0 if task.params.top_p == LEAST_TOP_P else task.params.top_p,
        "top_logprobs": body.top_logprobs or 0,
        "store": False,
        "background": False,
        "previous_response_id": None,
        "truncation": "disabled",
        "service_tier": "default",
        "reasoning": {"effort": effort if effort in EFFORTS else None, "summary": None},
    }


def _echoed_tool(tool: JsonObject) -> JsonObject:
    if tool.get("type") in ("namespace", CUSTOM):
        return tool
    function = {"description": None, "parameters": None, "strict": False, **function_of(tool)}
    return {"type": "function", **function}


def _sendable(body: ResponsesRequest, name: str) -> Any:
    try:
        return json.loads(
            body.model_dump_json(include={name}, by_alias=True, exclude_none=True)
        ).get(name)
    except (ValueError, RecursionError):
        raise InvalidParams(
            f"{name} has text that is not Unicode, or is nested too deeply", param=name
        ) from None


API = Api(
    "/v1/responses",
    "Answer a conversation, as OpenAI's newer API does. Nothing is stored.",
    ResponsesRequest,
    parse,
    ResponseRenderer,
    passed=PassedResponse,
)
