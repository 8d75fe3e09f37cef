"""Owns OpenAI's custom tools, which are called with a text: the model sees each as a function with
one argument.

Source: OpenAI, "Function calling" (platform.openai.com/docs/guides/function-calling): custom tools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams
from specguide.inputs.json_fields import shown
from specguide.server.bodies.base_body import given

KIND, INPUT = "custom", "input"
CALLED_WITH = {"function": "arguments", KIND: INPUT}
"""The name of a call's input, by the call's type."""
_QUOTES_BEFORE = 3
"""Quotes in an object's JSON up to its first value, a text: two of the key, and one of the text."""
_HALVES = frozenset(f"ud{digit}" for digit in "89ab")
"""Beginnings of escapes that form one character together with the next escape: surrogates."""


def custom_names(tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Names of the custom tools."""
    custom = (given(tool, KIND, tool) for tool in tools if tool.get("type") == KIND)
    return frozenset(str(one.get("name")) for one in custom if isinstance(one, Mapping))


def custom_function(definition: Mapping[str, Any], param: str) -> Mapping[str, Any]:
    """The function that stands for a custom tool or for a choice of one; chat has the definition
    under "custom", responses have it beside "type". Raises InvalidParams.

    param: the request's field of the definition
    """
    custom = given(definition, KIND, definition)
    if not isinstance(custom, Mapping):
        raise InvalidParams(f"a custom tool must be an object, found {shown(custom)}", param=param)
    text = {"type": "string", **_format(given(custom, "format", {}), f"{param}.format")}
    parameters = {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }
    named = {name: custom[name] for name in ("name", "description") if custom.get(name) is not None}
    return {**named, "parameters": parameters}


def _format(asked: Any, param: str) -> dict[str, Any]:
    """The keywords of the text's schema for this format. Raises InvalidParams."""
    kind = given(asked, "type", "text") if isinstance(asked, Mapping) else None
    if kind == "text":
        return {}
    grammar = given(asked, "grammar", asked) if kind == "grammar" else None
    syntax = grammar.get("syntax") if isinstance(grammar, Mapping) else None
    if isinstance(grammar, Mapping) and isinstance(grammar.get("definition"), str):
        if syntax == "regex":
            return {"pattern": f"^(?:{grammar['definition']})$"}
        if syntax == "lark":
            raise InvalidParams(
                "a custom tool's grammar in Lark cannot be enforced inside of a call: write it as "
                'a regular expression ("syntax": "regex"), or use it as the grammar of the whole '
                "answer",
                param=param,
            )
    raise InvalidParams(
        'a custom tool\'s format must be {"type": "text"} or {"type": "grammar", "syntax": '
        f'"regex", "definition": …}}, found {shown(asked)}',
        param=param,
    )


class InputText:
    """The text of a custom tool's call, read piece by piece from its arguments."""

    def __init__(self) -> None:
        self._num_quotes = 0
        self._left = ""  # not read yet

    def feed(self, arguments: str) -> str:
        """The text that the next part of the arguments adds."""
        self._left += arguments
        while self._num_quotes < _QUOTES_BEFORE:
            _, quote, self._left = self._left.partition('"')
            if not quote:
                return ""
            self._num_quotes += 1
        if self._num_quotes > _QUOTES_BEFORE:
            return ""
        end, is_over = _read(self._left)
        text, self._left = self._left[:end], self._left[end:]
        self._num_quotes += is_over
        found: str = json.loads(f'"{text}"', strict=False)
        return found.encode(errors="replace").decode()  # a lone surrogate is not a character


def _read(text: str) -> tuple[int, bool]:
    """The number of characters inside a JSON string that no later text can change, and whether the
    string ends there."""
    at = 0
    while (escape := text.find("\\", at)) >= 0:
        quote = text.find('"', at, escape)
        if quote >= 0:
            return quote, True
        behind = escape + (6 if text.startswith("u", escape + 1) else 2)
        is_half = text[escape + 1 : escape + 4].lower() in _HALVES
        if is_half and "\\u".startswith(text[behind : behind + 2]):
            behind += 6
        if behind > len(text):
            return escape, False
        at = behind
    quote = text.find('"', at)
    return (len(text), False) if quote < 0 else (quote, True)
