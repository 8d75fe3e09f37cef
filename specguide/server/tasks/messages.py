"""Owns the translation of a conversation's messages to those that the chat template reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from pydantic_core import from_json

from specguide.errors import InvalidParams
from specguide.guided.tools import ToolFormat
from specguide.server.bodies.base_body import given
from specguide.tokenizer.contents import between_parts, text_of
from specguide.tokenizer.images import ImageParts

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def template_messages(
    messages: Sequence[Mapping[str, Any]], images: ImageParts | None = None
) -> list[dict[str, Any]]:
    """The messages as chat templates read them: contents are text, "developer" is "system",
    arguments of calls are objects, and calls of OpenAI's old `function_call` are tool calls.

    images: takes those of the user's messages, see `contents.text_of`
    Raises InvalidParams naming the message.
    """
    if not messages:
        raise InvalidParams("there must be at least one message", param="messages")
    made: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        made.append(_message(message, f"messages[{index}]", index, images))
        if message.get("role") == "function":  # it answers the previous call
            calls = made[-2].get("tool_calls") if index else None
            made[-1] |= {"role": "tool", "tool_call_id": calls[-1].get("id") if calls else ""}
    return made


def _message(
    message: Mapping[str, Any], param: str, index: int, images: ImageParts | None
) -> dict[str, Any]:
    role = message.get("role")
    if role not in _ROLES:
        raise InvalidParams(
            f"role must be one of {', '.join(_ROLES)}, found {role!r}", param=f"{param}.role"
        )
    made = dict(message)
    calls = made.get("tool_calls")
    function = made.pop("function_call", None)
    if calls is None and function is not None:
        calls = [{"id": f"call_{index}", "type": "function", "function": function}]
    content = made.get("content", None if role == "assistant" else ())
    if content is None:
        content = made.get("refusal") or ("" if not calls else None)
    if content is not None:
        images = images if role == "user" else None
        content = text_of(content, f"{param}.content", between_parts(role), images)
    made["content"] = content
    made["role"] = "system" if role == "developer" else role
    if calls is not None:
        if not isinstance(calls, list):
            raise InvalidParams("tool_calls must be a list", param=f"{param}.tool_calls")
        made["tool_calls"] = [
            _call(call, f"{param}.tool_calls[{index}]") for index, call in enumerate(calls)
        ]
    return with_thoughts(made)


def with_format_ids(
    messages: Sequence[dict[str, Any]], tool_format: ToolFormat
) -> list[dict[str, Any]]:
    """The messages, with the ids of calls and of their results in the form that the tool format
    needs."""
    if not tool_format.told_id:
        return list(messages)
    new_ids: dict[str, str] = {}
    made: list[dict[str, Any]] = []
    numbers = count()
    for message in messages:
        changed = dict(message)
        if calls := message.get("tool_calls"):
            ids = [tool_format.id_of(call["function"]["name"], next(numbers)) for call in calls]
            new_ids |= {str(call.get("id")): new for call, new in zip(calls, ids, strict=True)}
            changed["tool_calls"] = [
                {**call, "id": new} for call, new in zip(calls, ids, strict=True)
            ]
        elif str(message.get("tool_call_id")) in new_ids:
            changed["tool_call_id"] = new_ids[str(message["tool_call_id"])]
        made.append(changed)
    return made


def with_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    """The message, with the assistant's reasoning under both names that templates read. Harmony's
    templates read it as `thinking`, and do not accept it together with a text and calls."""
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if thoughts:
        message["reasoning_content"] = thoughts
        if not (message["content"] and message.get("tool_calls")):
            message.setdefault("thinking", thoughts)
    return message


def _call(call: Any, param: str) -> dict[str, Any]:
    kind = given(call, "type", "function") if isinstance(call, Mapping) else None
    function = call.get("custom" if kind == "custom" else "function") if kind else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidParams(
            'a tool call must be {"id": …, "type": "function", "function": {"name": …, '
            '"arguments": …}}',
            param=param,
        )
    if kind == "custom":
        made = {"name": function["name"], "arguments": {"input": given(function, "input", "")}}
        return {"id": call.get("id"), "type": "function", "function": made}
    written = function.get("arguments")
    arguments = arguments_of({} if written is None else written, f"{param}.function.arguments")
    return {**call, "function": {**function, "arguments": arguments}}


def arguments_of(arguments: Any, param: str) -> Mapping[str, Any]:
    """A call's arguments as an object, given as an object or as JSON text; of a text that was cut
    off, the part that is there. Raises InvalidParams naming them."""
    try:
        made = _object_of(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        made = None
    if not isinstance(made, Mapping):
        raise InvalidParams("arguments must be a JSON object in a string", param=param)
    return made


def _object_of(text: str) -> Any:
    if text.strip() in ("", "null"):  # from clients without arguments
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return from_json(text.encode(errors="replace"), allow_partial="trailing-strings")
