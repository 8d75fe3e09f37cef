"""Owns the translation of /v1/responses' input items to the messages that chat templates read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.apis.responses.tools import flat_name
from specguide.server.bodies.base_body import given
from specguide.server.tasks.messages import arguments_of, with_thoughts
from specguide.tokenizer.contents import between_parts, text_of
from specguide.tokenizer.images import ImageParts

_TAKEN = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
)
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def input_messages(
    instructions: str | None,
    items: str | Sequence[Mapping[str, Any]],
    images: ImageParts | None = None,
) -> list[dict[str, Any]]:
    """The messages as chat templates read them: consecutive reasoning, text and calls of the
    assistant become one message.

    images: takes those of the user's messages, see `contents.text_of`
    Raises InvalidParams naming the item.
    """
    messages: list[dict[str, Any]] = (
        [{"role": "system", "content": instructions}] if instructions else []
    )
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    called = set[str]()
    for index, item in enumerate(items):
        _add(messages, called, item, f"input[{index}]", images)
    if not messages:
        raise InvalidParams(
            "input has nothing that the model reads; give at least one message", param="input"
        )
    return [with_thoughts(message) for message in messages]


def _add(
    messages: list[dict[str, Any]],
    called: set[str],
    item: Mapping[str, Any],
    param: str,
    images: ImageParts | None,
) -> None:
    """Add an item to the messages. called: ids of the calls in them"""
    kind = given(item, "type", "message")
    if kind == "message":
        _say(messages, _message(item, param, images))
    elif kind == "reasoning":
        if thoughts := text_of(given(item, "content", ""), f"{param}.content", ""):
            messages.append({"role": "assistant", "content": "", "reasoning_content": thoughts})
    elif kind in ("function_call", "custom_tool_call"):
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        messages[-1].setdefault("tool_calls", []).append(_call(item, param))
        called.add(item["call_id"])
    elif kind in ("function_call_output", "custom_tool_call_output"):
        messages.append(_output(item, called, param))
    elif kind == "item_reference":
        _check_reference(item, param)
    else:
        raise InvalidParams(
            f"an item must be of type {', '.join(_TAKEN)}, found {kind!r}", param=f"{param}.type"
        )


def _say(messages: list[dict[str, Any]], made: dict[str, Any]) -> None:
    """Add a message; the assistant's continues its previous reasoning or calls."""
    last = messages[-1] if messages and made["role"] == "assistant" else {}
    if (last.get("reasoning_content") or last.get("tool_calls")) and not last["content"]:
        last["content"] = made["content"]
    else:
        messages.append(made)


def _check_reference(item: Mapping[str, Any], param: str) -> None:
    """Raises InvalidParams for a reference without which the conversation is incomplete; reasoning
    may be missing."""
    if not str(item.get("id")).startswith("rs_"):
        raise InvalidParams(
            f"this server stores nothing and has no item {item.get('id')!r} to refer to: send the "
            "item itself, as clients do with store: false",
            param=param,
        )


def _message(item: Mapping[str, Any], param: str, images: ImageParts | None) -> dict[str, Any]:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidParams(
            f"role must be one of {', '.join(_ROLES)}, found {role!r}", param=f"{param}.role"
        )
    content = item.get("content", ())
    images = images if role == "user" else None
    return {
        "role": _ROLES[role],
        "content": ""
        if content is None
        else text_of(content, f"{param}.content", between_parts(role), images),
    }


def _call(item: Mapping[str, Any], param: str) -> dict[str, Any]:
    is_custom = item.get("type") == "custom_tool_call"
    written = "input" if is_custom else "arguments"
    for name in ("call_id", "name", written):
        if not isinstance(item.get(name), str):
            raise InvalidParams(f"a {item['type']} needs a string {name}", param=f"{param}.{name}")
    arguments = (
        {"input": item["input"]}
        if is_custom
        else arguments_of(item["arguments"], f"{param}.arguments")
    )
    namespace = item.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise InvalidParams("a namespace must be a string", param=f"{param}.namespace")
    return {
        "id": item["call_id"],
        "type": "function",
        "function": {"name": flat_name(namespace, item["name"]), "arguments": arguments},
    }


def _output(item: Mapping[str, Any], called: set[str], param: str) -> dict[str, Any]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or call_id not in called:
        raise InvalidParams(
            f"no call before this output has the call_id {call_id!r}; send the call too, since "
            "this server stores nothing",
            param=f"{param}.call_id",
        )
    content = text_of(item.get("output") or "", f"{param}.output", between_parts("tool"))
    return {"role": "tool", "tool_call_id": call_id, "content": content}
