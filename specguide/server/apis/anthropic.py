"""Owns /v1/messages: Anthropic's API for the served model.

Source: Anthropic, "Messages", "Streaming Messages", "Count Message tokens" and "Errors"
        (docs.anthropic.com/en/api).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.server.apis.anthropic_input import template_choice, template_messages, template_tools
from specguide.server.apis.api import Api, JsonObject, Renderer, check_not_aborted
from specguide.server.bodies import fields
from specguide.server.bodies.shared_fields import (
    GeneratingBody,
    TemplateFields,
    Thinking,
    TurnFields,
    Values,
)
from specguide.server.http.errors import ApiError
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.conversation import conversation_task, num_prompt_tokens
from specguide.server.tasks.events import Arguments, CallBegin, End, Event, Reasoned, Text
from specguide.server.tasks.guides import naming
from specguide.server.tasks.prompt import Conversation
from specguide.server.tasks.task import Task
from specguide.server.tasks.tools import ToolFields

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_TOOLS = ToolFields(parameters="input_schema")


class Refused(BaseModel):
    """Anthropic's error: its type and its message, and details with its code where it has one."""

    type: Literal["error"]
    error: dict[str, str | dict[str, str]]


class ConversationFields(GeneratingBody, TemplateFields):
    """The fields that determine the prompt."""

    beside = fields.ANTHROPIC
    messages: Values[dict[str, Any]]
    system: str | Values[dict[str, Any]] | None = None
    tools: Values[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: Thinking | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


class _Turn(TurnFields):
    """The same as OpenAI's chat fields."""

    def effort_field(self) -> str:
        """The field's name in Anthropic's API."""
        return "output_config.effort"


class MessagesRequest(ConversationFields):
    """/v1/messages. allow_truncation: as in the other APIs"""

    max_tokens: int = Field(ge=1)
    stop_sequences: Values[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    allow_truncation: bool = False


class CountRequest(ConversationFields):
    """/v1/messages/count_tokens"""


def parse(backend: Backend, body: MessagesRequest) -> Task:
    """The task of a body. Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    conversation = _conversation(backend, body)
    turn = _turn(
        body,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        stop=body.stop_sequences,
        allow_truncation=body.allow_truncation,
    )
    return conversation_task(
        backend, turn, conversation, _answer(body), _TOOLS, max_tokens=body.max_tokens
    )


def count(backend: Backend, body: CountRequest) -> JsonObject:
    """The number of tokens of the prompt, which may be too long for the model. Raises as `parse`
    does."""
    turn, conversation = _turn(body), _conversation(backend, body)
    num_tokens = num_prompt_tokens(backend, turn, conversation, _answer(body), _TOOLS)
    return {"input_tokens": num_tokens}


def _conversation(backend: Backend, body: ConversationFields) -> Conversation:
    """The conversation. A last message of the assistant is continued, as Anthropic's API does.
    Raises InvalidParams."""
    images = backend.tokenizer.image_parts()
    messages = template_messages(body.system, body.messages, images)
    is_continued = bool(messages) and messages[-1]["role"] == "assistant"
    if is_continued and body.thinking is not None and body.thinking.type == "enabled":
        raise InvalidParams(
            "the answer continues the last message, which is the assistant's, without thinking: "
            "leave thinking out, or let the last message be the user's",
            param="thinking",
        )
    return Conversation("messages", messages, is_continued, images=images)


def _turn(body: ConversationFields, **sampling: Any) -> TurnFields:
    return _Turn(
        model=body.model,
        tools=template_tools(body.tools),
        tool_choice=template_choice(body.tool_choice),
        parallel_tool_calls=not (body.tool_choice or {}).get("disable_parallel_tool_use"),
        reasoning_effort=_effort(body),
        max_reasoning_tokens=None if body.thinking is None else body.thinking.budget_tokens,
        chat_template_kwargs=body.chat_template_kwargs,
        chat_template=body.chat_template,
        allow_special_tokens=body.allow_special_tokens,
        **{name: value for name, value in sampling.items() if value is not None},
    )


def _effort(body: ConversationFields) -> str | None:
    """The effort, by OpenAI's names."""
    if body.thinking is not None and body.thinking.type == "disabled":
        return "none"
    effort = (body.output_config or {}).get("effort")
    if effort is not None and not isinstance(effort, str):
        raise InvalidParams(
            f"effort must be a string, found {effort!r}", param="output_config.effort"
        )
    return "xhigh" if effort == "max" else effort


def _answer(body: ConversationFields) -> Guide | None:
    """The guide of the answer; newer and older clients ask for it in different fields."""
    configured = (body.output_config or {}).get("format")
    param = "output_config.format" if configured else "output_format"
    stated = configured or body.output_format
    if body.output_format not in (None, stated):
        raise InvalidParams(
            "output_config.format and output_format both constrain the answer; give only one",
            param="output_format",
        )
    if stated is None:
        return None
    if not isinstance(stated, dict) or stated.get("type") != "json_schema":
        raise InvalidParams('the format must be {"type": "json_schema", "schema": …}', param=param)
    return naming(f"{param}.schema", json_schema=stated.get("schema"))


class MessageRenderer(Renderer[MessagesRequest]):
    """Writes one message: blocks of text and of tool calls, each with its begin, deltas and end."""

    names_lines: ClassVar[bool] = True

    def __init__(self, body: MessagesRequest, task: Task) -> None:
        super().__init__(body, task)
        self._id = f"msg_{secrets.token_hex(12)}"
        self._blocks: list[JsonObject] = []
        self._arguments: dict[int, str] = {}
        self._is_open = False
        self._stop: JsonObject = {"stop_reason": None, "stop_sequence": None}

    def begin(self) -> Iterator[JsonObject]:
        yield {"type": "message_start", "message": self._message([])}

    def take(self, event: Event) -> Iterable[JsonObject]:
        if isinstance(event, Reasoned):
            yield from self._add("thinking", event.text)
        elif isinstance(event, Text):
            if event.text:
                yield from self._add("text", event.text)
        elif isinstance(event, CallBegin):
            call_id = f"toolu_{secrets.token_hex(12)}"
            block = {"type": "tool_use", "id": call_id, "name": event.name, "input": {}}
            yield from self._begin_block(block)
            self._arguments[self._last] = ""
        elif isinstance(event, Arguments):
            self._arguments[self._last] += event.text
            yield self._delta({"type": "input_json_delta", "partial_json": event.text})
        elif isinstance(event, End):
            check_not_aborted(event)
            yield from self._end_block()
            self._stop = self._reason(event)

    def end(self) -> Iterator[JsonObject]:
        yield {"type": "message_delta", "delta": self._stop, "usage": self._usage()}
        yield {"type": "message_stop"}

    def failed(self, error: ApiError) -> Iterable[JsonObject]:
        return (error_body(error),)

    def whole(self) -> JsonObject:
        """The message. A tool call is left out whose input was cut off, or is nested too deeply."""
        blocks = []
        for index, block in enumerate(self._blocks):
            if block["type"] == "tool_use":
                try:
                    block = {**block, "input": json.loads(self._arguments[index] or "{}")}
                except (ValueError, RecursionError):
                    continue
            blocks.append(block)
        return self._message(blocks)

    @property
    def _last(self) -> int:
        return len(self._blocks) - 1

    def _add(self, kind: str, text: str) -> Iterator[JsonObject]:
        if not self._is_open or self._blocks[-1]["type"] != kind:
            signature = {"signature": ""} if kind == "thinking" else {}
            yield from self._begin_block({"type": kind, kind: "", **signature})
        self._blocks[-1][kind] += text
        yield self._delta({"type": f"{kind}_delta", kind: text})

    def _begin_block(self, block: JsonObject) -> Iterator[JsonObject]:
        yield from self._end_block()
        self._blocks.append(block)
        self._is_open = True
        yield {"type": "content_block_start", "index": self._last, "content_block": {**block}}

    def _end_block(self) -> Iterator[JsonObject]:
        if self._is_open:
            yield {"type": "content_block_stop", "index": self._last}
        self._is_open = False

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._last, "delta": delta}

    def _reason(self, end: End) -> JsonObject:
        has_called = bool(self._blocks) and self._blocks[-1]["type"] == "tool_use"
        if end.finish_reason == "length":
            reason = "max_tokens"
        elif isinstance(end.stop_reason, str):
            return {"stop_reason": "stop_sequence", "stop_sequence": end.stop_reason}
        else:
            reason = "tool_use" if has_called else "end_turn"
        return {"stop_reason": reason, "stop_sequence": None}

    def _message(self, blocks: list[JsonObject]) -> JsonObject:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self.task.model,
            "content": blocks,
            **self._stop,
            "usage": self._usage(),
        }

    def _usage(self) -> JsonObject:
        usage = self.usage
        return {
            "input_tokens": usage.num_prompt - usage.num_cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.num_cached,
            "output_tokens": usage.num_output,
        }


def error_body(error: ApiError) -> JsonObject:
    """Anthropic's error object; its message begins with the name of the wrong field."""
    found = error.body()["error"]
    place = f"{found['param']}: " if found["param"] else ""
    if found["message"].startswith((place, f"{found['param']} ")):
        place = ""
    if error.code == "context_length_exceeded":
        place = "prompt is too long: "  # clients recognize the error by it
    kind = _ERRORS.get(error.status, "api_error" if error.status >= 500 else _ERRORS[400])
    details = {"details": {"error_code": error.code}} if error.code else {}
    message = place + found["message"]
    return {"type": "error", "error": {"type": kind, "message": message, **details}}


API = Api(
    "/v1/messages",
    "Answer a conversation, as Anthropic's API does.",
    MessagesRequest,
    parse,
    MessageRenderer,
    error_body,
    Refused,
)
