"""Owns structural tags for messages that are one call or a JSON answer, where both begin alike.

A lexer takes `{"name": "` for the beginning of a call, so no answer could begin with `{"`. With a
tag, a backend that reads character by character follows both until it is clear which one it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

from specguide.guided.schema.json_values import needs_no_escape
from specguide.guided.schema.subschemas import subschemas
from specguide.guided.tools.formats import ToolFormat
from specguide.guided.tools.message_rules import Tool

_OF_DEFINITION = "#/$defs/name".count("/")


def message_tag(tool_format: ToolFormat, tools: Sequence[Tool], answer: Any) -> str | None:
    """The tag as JSON text, with the schemas of the answer and of the tools. None where there is no
    answer or it may be read as a call, where a call is no JSON object, or where the backend of tags
    would forbid some of what a schema allows.

    An answer lacks at least one key of a call.
    """
    is_object = tool_format.arguments is None and tool_format.opening.startswith("{")
    if not is_object or tool_format.separator is not None:
        return None
    apart = _apart(answer, _keys(tool_format))
    if apart is None:
        return None
    schemas = [_opened(apart), *(_opened(tool.parameters) for tool in tools)]
    if None in schemas:
        return None
    spoken, *arguments = ({"type": "json_schema", "json_schema": schema} for schema in schemas)
    calls = [
        {
            "type": "tag",
            "begin": tool_format.opening + tool.name + tool_format.before_arguments,
            "content": content,
            "end": tool_format.after_arguments + tool_format.end,
        }
        for tool, content in zip(tools, arguments, strict=True)
    ]
    form = {"type": "or", "elements": [spoken, *calls]}
    return json.dumps({"type": "structural_tag", "format": form}, ensure_ascii=False)


def _keys(tool_format: ToolFormat) -> Set[str]:
    """The keys of a call."""
    around = f"{tool_format.opening}{tool_format.before_arguments}", tool_format.after_arguments
    return set(json.loads("{}".join(around)))


def _apart(answer: Any, keys: Set[str]) -> Mapping[str, Any] | None:
    """The schema of the answers, except objects that have all of the keys; None where it names them
    all."""
    if answer is True:
        return _apart({}, keys)
    if not isinstance(answer, Mapping):
        return None
    named, parts = answer.get("properties", {}), answer.get("allOf", [])
    if not isinstance(named, Mapping) or not isinstance(parts, list) or keys <= named.keys():
        return None
    left = {keyword: value for keyword, value in answer.items() if keyword != "$ref"}
    if "$ref" in answer:  # in some drafts it disables the keywords beside it
        parts = [*parts, {"$ref": answer["$ref"]}]
    lacking = {"anyOf": [{"properties": {key: False}} for key in sorted(keys - named.keys())]}
    return {**left, "allOf": [*parts, lacking]}


def _opened(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema with its open objects declared open; None where that would allow too much, or
    where it refers to something that may not be a subschema.

    The backend of tags takes objects as closed unless they say otherwise. Objects stay unchanged
    where the backend could not tell other names from named ones.
    """
    copy: dict[str, Any] = json.loads(json.dumps(schema))
    todo: list[Any] = [copy]
    while todo:
        each = todo.pop()
        if "unevaluatedProperties" in each or str(each.get("$ref")).count("/") > _OF_DEFINITION:
            return None
        named = each.get("properties")
        if isinstance(named, dict) and all(map(needs_no_escape, named)):
            each.setdefault("additionalProperties", True)
        todo += [child for _, _, child in subschemas(each)]
    return copy
