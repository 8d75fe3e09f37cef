"""Owns the input items of /v1/responses on their way to the chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.messages import arguments_of, text_of

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def input_messages(
    instructions: str | None, items: str | Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """As chat templates read them: calls that follow each other, or a text, are one message of the
    assistant.

    Raises InvalidParams naming the item.
    """
    messages: list[dict[str, Any]] = (
        [{"role": "system", "content": instructions}] if instructions else []
    )
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    if not items:
        raise InvalidParams("there must be at least one item", param="input")
    called = set[str]()
    for index, item in enumerate(items):
        param = f"input[{index}]"
        kind = item.get("type", "message")
        if kind == "message":
            messages.append(_message(item, param))
        elif kind == "function_call":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            messages[-1].setdefault("tool_calls", []).append(_call(item, param))
            called.add(item["call_id"])
        elif kind == "function_call_output":
            if not isinstance(item.get("call_id"), str) or item["call_id"] not in called:
                raise InvalidParams(
                    f"no function_call before this output has the call_id {item.get('call_id')!r}; "
                    "send the call too, since nothing is stored here",
                    param=f"{param}.call_id",
                )
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": item["call_id"],
                    "content": text_of(item.get("output"), f"{param}.output"),
                }
            )
        else:
            raise InvalidParams(
                "an item must be of type message, function_call or function_call_output, found "
                f"{kind!r}",
                param=f"{param}.type",
            )
    return messages


def _message(item: Mapping[str, Any], param: str) -> dict[str, Any]:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidParams(
            f"role must be one of {', '.join(_ROLES)}, found {role!r}", param=f"{param}.role"
        )
    return {"role": _ROLES[role], "content": text_of(item.get("content"), f"{param}.content")}


def _call(item: Mapping[str, Any], param: str) -> dict[str, Any]:
    for name in ("call_id", "name", "arguments"):
        if not isinstance(item.get(name), str):
            raise InvalidParams(f"a function_call needs a text {name}", param=f"{param}.{name}")
    arguments = arguments_of(item["arguments"], f"{param}.arguments")
    return {
        "id": item["call_id"],
        "type": "function",
        "function": {"name": item["name"], "arguments": arguments},
    }
