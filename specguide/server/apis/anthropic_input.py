"""Owns the translation of messages and tools of Anthropic's API to those of OpenAI's chat, which
chat templates read.

Source: Anthropic, "Messages" (docs.anthropic.com/en/api/messages): content blocks, tools, choices
        of tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.tasks.messages import with_thoughts
from specguide.tokenizer.contents import between_parts
from specguide.tokenizer.images import ImageParts

Message = dict[str, Any]
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THOUGHTS = {"thinking": "thinking", "redacted_thinking": None}
_USERS = ("user", "ctx", "msg")
"""The user, and the roles that Claude Code has used for messages that it adds itself."""
_TEXT_SOURCES = {"text": "data", "content": "content"}
"""Types of document sources that are text, each with the field that has the text."""
_BILLING = "x-anthropic-billing-header:"
"""Start of a line for Anthropic's billing, with which Claude Code's system prompt begins."""


def template_messages(
    system: str | Sequence[Mapping[str, Any]] | None,
    messages: Sequence[Mapping[str, Any]],
    images: ImageParts | None = None,
) -> list[Message]:
    """The messages as chat templates read them. Raises InvalidParams naming the block.

    images: takes those of the user's messages, see `contents.text_of`
    """
    made = _instructions(system or "", "system")
    if not messages:
        raise InvalidParams("there must be at least one message", param="messages")
    for index, message in enumerate(messages):
        param = f"messages[{index}]"
        match message.get("role"):
            case role if role in _USERS:
                made += _of_user(message.get("content"), f"{param}.content", images)
            case "assistant":
                made.append(_of_assistant(message.get("content"), f"{param}.content"))
            case "system":
                made += _instructions(message.get("content"), f"{param}.content")
            case role:
                raise InvalidParams(
                    f"role must be user or assistant, found {role!r}", param=f"{param}.role"
                )
    last = made[-1] if made else {}
    if last.get("role") == "assistant" and (last.get("tool_calls") or not last["content"]):
        raise InvalidParams(
            "the last message must be the user's, or the assistant's with a text and no tool_use, "
            "which the answer continues",
            param="messages",
        )
    return made


def template_tools(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The tools as OpenAI's functions. Raises InvalidParams naming the tool."""
    if tools is None:
        return None
    return [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]


def template_choice(choice: Mapping[str, Any] | None) -> str | dict[str, Any] | None:
    """The tool choice in OpenAI's form. Raises InvalidParams."""
    if choice is None:
        return None
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "name": choice.get("name")}
    if not isinstance(kind, str) or kind not in _CHOICES:
        raise InvalidParams(
            f"tool_choice must be of type auto, any, tool or none, found {kind!r}",
            param="tool_choice.type",
        )
    return _CHOICES[kind]


def _tool(tool: Mapping[str, Any], param: str) -> dict[str, Any]:
    if tool.get("type") in (None, "custom") and "input_schema" not in tool:
        raise InvalidParams('a tool must have an "input_schema"', param=param)
    if tool.get("type") not in (None, "custom"):
        raise InvalidParams(
            "this server runs no tools itself: a tool must be "
            f'{{"name": …, "input_schema": …}}, found type {tool.get("type")!r}',
            param=param,
        )
    function = {name: tool[name] for name in ("name", "description", "strict") if name in tool}
    return {"type": "function", **function, "parameters": tool["input_schema"]}


def _of_user(content: Any, param: str, images: ImageParts | None) -> list[Message]:
    """The user's messages: each tool result becomes its own message, between those of other
    content."""
    made: list[Message] = []
    is_behind_text = False
    for block, place in _blocks(content, param):
        if block.get("type") == "tool_result":
            made.append(_result(block, place))
            continue
        mark = images.mark_of(block, place) if images is not None else None
        text = _text_of(block, place) if mark is None else mark
        if made and made[-1]["role"] == "user":
            is_between = is_behind_text and mark is None
            made[-1]["content"] += (between_parts("user") if is_between else "") + text
        else:
            made.append({"role": "user", "content": text})
        is_behind_text = mark is None
    return made or [{"role": "user", "content": ""}]


def _of_assistant(content: Any, param: str) -> Message:
    texts, thoughts, calls = [], [], []
    for block, place in _blocks(content, param):
        kind = block.get("type")
        if kind == "tool_use":
            calls.append(_call(block, place))
        elif isinstance(kind, str) and kind in _THOUGHTS:
            thoughts.append(str(block.get(_THOUGHTS[kind] or "", "")))
        else:
            texts.append(_text_of(block, place))
    message: Message = {"role": "assistant", "content": "".join(texts)}
    if any(thoughts):
        message["reasoning_content"] = "".join(thoughts)
    return with_thoughts(message | ({"tool_calls": calls} if calls else {}))


def _call(block: Mapping[str, Any], param: str) -> dict[str, Any]:
    name, arguments = block.get("name"), block.get("input")
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise InvalidParams(
            "a tool_use needs a name, which is a string, and an input, which is an object",
            param=param,
        )
    function = {"name": name, "arguments": arguments}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result(block: Mapping[str, Any], param: str) -> Message:
    text = _text(block.get("content") or "", f"{param}.content")
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}


def _blocks(content: Any, param: str) -> list[tuple[Mapping[str, Any], str]]:
    """The blocks of a content, which is a text or a list of blocks, each with its place."""
    if isinstance(content, str):
        return [({"type": "text", "text": content}, param)]
    if not isinstance(content, list) or not all(isinstance(one, Mapping) for one in content):
        raise InvalidParams("content must be a string or a list of blocks", param=param)
    return [(block, f"{param}[{index}]") for index, block in enumerate(content)]


def _instructions(content: Any, param: str) -> list[Message]:
    """A system prompt, without the billing line. That line tells the model nothing and differs from
    request to request, so no prompt's beginning would be found in the prefix cache."""
    texts = [_text_of(block, place) for block, place in _blocks(content, param)]
    if texts and texts[0].startswith(_BILLING):
        texts[0] = texts[0].partition("\n")[2]
    text = between_parts("system").join(filter(None, texts))
    return [{"role": "system", "content": text}] if text else []


def _text(content: Any, param: str) -> str:
    texts = [_text_of(block, place) for block, place in _blocks(content, param)]
    return between_parts("tool").join(texts)


def _text_of(block: Mapping[str, Any], place: str) -> str:
    """The text of a block: of a document or a search result that is text, with its title before it;
    of a reference to a tool that a search has found, the tool's name."""
    kind, found = block.get("type"), block.get("tool_name")
    if kind == "tool_reference" and isinstance(found, str):
        return found
    if kind == "search_result":
        return _headed(block, ("title", "source"), block.get("content"), f"{place}.content")
    source = block.get("source")
    if kind == "document" and isinstance(source, Mapping):
        has = _TEXT_SOURCES.get(str(source.get("type")))
        if has is not None:
            return _headed(block, ("title", "context"), source.get(has), f"{place}.source.{has}")
    return _plain(block, place)


def _headed(block: Mapping[str, Any], heads: Sequence[str], content: Any, param: str) -> str:
    texts = [block[name] for name in heads if isinstance(block.get(name), str)]
    texts += [_plain(one, place) for one, place in _blocks(content, param)]
    return "\n".join(filter(None, texts))


def _plain(block: Mapping[str, Any], place: str) -> str:
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        raise InvalidParams(
            f'text only is read here: a block must be {{"type": "text", "text": …}}, found type '
            f"{block.get('type')!r}",
            param=place,
        )
    return text
