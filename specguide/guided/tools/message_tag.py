"""Owns messages that are one call or a JSON answer, where both begin alike, as structural tags.

A lexer takes `{"name": "` for the beginning of a call, and no answer may begin with `{"` then; of a
tag, a backend that reads character by character goes both ways until it is clear which it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from specguide.guided.schema.subschemas import subschemas
from specguide.guided.tools.formats import ToolFormat

_OF_CASES = frozenset(
    {
        "if",
        "not",
        "oneOf",
        "contains",
        "propertyNames",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
    }
)
_OF_KINDS = frozenset({"properties", "items"})


class _Tool(Protocol):
    """What is asked of a tool here."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...


def message_tag(tool_format: ToolFormat, tools: Sequence[_Tool], answer: Any) -> str | None:
    """The tag as JSON text, whose schemas are those of the answer and of the tools; None where
    there is no answer or it may be read as a call, a call is no JSON object, or the backend of tags
    would leave out some of what a schema allows.

    The answer has no other keys than those that its schema names.
    """
    one = tool_format
    if one.arguments is not None or one.separator is not None or not one.opening.startswith("{"):
        return None
    apart = _closed(answer, _keys(one))
    if apart is None or not all(map(_is_plain, [apart, *(tool.parameters for tool in tools)])):
        return None
    calls = [
        {
            "type": "tag",
            "begin": one.opening + tool.name + one.before_arguments,
            "content": {"type": "json_schema", "json_schema": dict(tool.parameters)},
            "end": one.after_arguments + one.end,
        }
        for tool in tools
    ]
    said = {"type": "json_schema", "json_schema": apart}
    form = {"type": "or", "elements": [said, *calls]}
    return json.dumps({"type": "structural_tag", "format": form}, ensure_ascii=False)


def _keys(tool_format: ToolFormat) -> set[str]:
    """The keys of a call."""
    around = f"{tool_format.opening}{tool_format.before_arguments}", tool_format.after_arguments
    return set(json.loads("{}".join(around)))


def _closed(answer: Any, keys: set[str]) -> dict[str, Any] | None:
    """The schema without other keys than it names; None where it asks for them, or names all of
    `keys`."""
    if not isinstance(answer, Mapping) or {"$ref", "patternProperties"} & answer.keys():
        return None
    named = answer.get("properties")
    if not isinstance(named, Mapping) or keys <= named.keys():
        return None
    if answer.get("additionalProperties", False) is not False:
        return None
    return {**answer, "additionalProperties": False}


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether nothing in it depends on what else holds, and all types are told."""
    todo = [schema]
    while todo:
        each = todo.pop()
        if _OF_CASES & each.keys() or (_OF_KINDS & each.keys() and "type" not in each):
            return False
        todo += [child for _, _, child in subschemas(each)]
    return True
