"""Owns the messages of a conversation on their way to the chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams

_ROLES = ("system", "developer", "user", "assistant", "tool")


def template_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As chat templates read them: contents are text, "developer" is "system", arguments of calls
    are objects.

    Raises InvalidParams naming the message.
    """
    if not messages:
        raise InvalidParams("there must be at least one message", param="messages")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message: Mapping[str, Any], param: str) -> dict[str, Any]:
    role = message.get("role")
    if role not in _ROLES:
        raise InvalidParams(
            f"role must be one of {', '.join(_ROLES)}, found {role!r}", param=f"{param}.role"
        )
    calls = message.get("tool_calls")
    content = text_of(
        message.get("content"), f"{param}.content", may_lack=role == "assistant" and bool(calls)
    )
    made = {**message, "role": "system" if role == "developer" else role, "content": content}
    if calls is not None:
        if not isinstance(calls, list):
            raise InvalidParams("tool_calls must be a list", param=f"{param}.tool_calls")
        made["tool_calls"] = [
            _call(call, f"{param}.tool_calls[{index}]") for index, call in enumerate(calls)
        ]
    return made


def text_of(content: Any, param: str, *, may_lack: bool = False) -> str | None:
    """Of a content, which is a text, or text parts of either API. Raises InvalidParams naming what
    else is there."""
    if isinstance(content, str) or (content is None and may_lack):
        return content
    if not isinstance(content, list):
        raise InvalidParams("content must be a text or a list of text parts", param=param)
    texts = []
    for index, part in enumerate(content):
        kind, text = (
            (part.get("type"), part.get("text")) if isinstance(part, Mapping) else (None, None)
        )
        if kind not in ("text", "input_text", "output_text") or not isinstance(text, str):
            raise InvalidParams(
                f'this model reads text only: a part must be {{"type": "text", "text": …}}, found '
                f"type "
                f"{kind!r}",
                param=f"{param}[{index}]",
            )
        texts.append(text)
    return "".join(texts)


def _call(call: Any, param: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidParams(
            'a call must be {"id": …, "type": "function", "function": {"name": …, "arguments": …}}',
            param=param,
        )
    arguments = arguments_of(function.get("arguments", {}), f"{param}.function.arguments")
    return {**call, "function": {**function, "arguments": arguments}}


def arguments_of(arguments: Any, param: str) -> Mapping[str, Any]:
    """A call's arguments as an object, which they are or whose text they are. Raises InvalidParams
    naming them."""
    try:
        made = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        made = None
    if not isinstance(made, Mapping):
        raise InvalidParams("arguments must be a JSON object, as text", param=param)
    return made
