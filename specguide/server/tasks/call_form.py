"""Owns the form in which the chat template gets earlier calls of a conversation.

Templates accept different forms: beside calls, an empty content or none at all; arguments as an
object or as text. Some cannot read calls. Templates do not tell which form they accept, so the
forms are tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from specguide.errors import InvalidParams
from specguide.guided.tools import ToolFormat
from specguide.server.tasks.messages import with_format_ids
from specguide.tokenizer import Tokenizer

_VALUE = "given-value"
_INDENT = 4
_FUNCTION = {
    "name": "given_function",
    "description": "A function",
    "parameters": {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "A name"}},
        "required": ["name"],
    },
}
_CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": "Question"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_0",
                "type": "function",
                "function": {"name": _FUNCTION["name"], "arguments": {"name": _VALUE}},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_0", "name": _FUNCTION["name"], "content": "Result"},
]


@dataclass(frozen=True)
class CallForm:
    """How calls are given to the template.

    tool_format: how the model writes them; None where that is unknown
    content:     the content of a message that has calls only
    as_text:     arguments are given as text
    in_content:  calls are a part of the content, as the model writes them
    """

    tool_format: ToolFormat | None
    content: str | None = None
    as_text: bool = False
    in_content: bool = False

    def applied(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages in the form that the template needs."""
        if self.tool_format is not None and not self.in_content:
            messages = with_format_ids(messages, self.tool_format)
        return [self._applied(one) if one.get("tool_calls") else one for one in messages]

    def _applied(self, message: dict[str, Any]) -> dict[str, Any]:
        content = self.content if message["content"] is None else message["content"]
        functions = [call["function"] for call in message["tool_calls"]]
        texts = [json.dumps(one["arguments"], ensure_ascii=False) for one in functions]
        if self.in_content and self.tool_format is not None:
            names = (one["name"] for one in functions)
            calls = list(zip(names, texts, strict=True))
            return {**message, "content": self.tool_format.message(calls, content or "")}
        if not self.as_text:
            return {**message, "content": content}
        calls_as_text = [
            {**call, "function": {**call["function"], "arguments": text}}
            for call, text in zip(message["tool_calls"], texts, strict=True)
        ]
        return {**message, "content": content, "tool_calls": calls_as_text}


def template_variables(
    tool_format: ToolFormat | None, tools: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """The variables that a format's chat templates need beside `tools`: functions under a name of
    their own, and the date."""
    if tool_format is None:
        return {}
    variables: dict[str, Any] = {}
    name, functions = tool_format.tools_variable, [tool["function"] for tool in tools or ()]
    if name and (functions or tool_format.tells_text):
        text = json.dumps(functions, ensure_ascii=False, indent=_INDENT)
        variables[name] = text if tool_format.tells_text else functions
    if tool_format.day_variable:
        variables[tool_format.day_variable] = datetime.now().strftime("%Y-%m-%d")
    return variables


def call_form(tokenizer: Tokenizer, tool_format: ToolFormat | None) -> CallForm:
    """The form in which the tokenizer's chat template needs calls: of the forms that write the
    call, the one that adds least; arguments as an object where the template accepts that."""
    is_taken = False
    for as_text in (False, True):
        ways = [CallForm(tool_format, content, as_text) for content in (None, "")]
        texts = [(way, _rendered(tokenizer, way)) for way in ways]
        writing = [(len(text), way) for way, text in texts if text and _VALUE in text]
        if writing:
            return min(writing, key=lambda one: one[0])[1]
        is_taken |= any(text is not None for _, text in texts)
    return CallForm(tool_format, in_content=is_taken)


def _rendered(tokenizer: Tokenizer, way: CallForm) -> str | None:
    """A rendered conversation with a call; None where the template refuses it."""
    tools = [{"type": "function", "function": _FUNCTION}]
    try:
        variables = template_variables(way.tool_format, tools)
        messages = way.applied(_CONVERSATION)
        token_ids = tokenizer.apply_chat_template(messages, tools, variables=variables)
    except InvalidParams:
        return None
    return tokenizer.decode(token_ids, skip_special_tokens=False)
