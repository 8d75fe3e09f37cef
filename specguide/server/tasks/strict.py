"""Owns OpenAI's strict subset of JSON Schema: the check which schemas `strict: true` accepts, and
the error messages for the others.

Source: OpenAI, "Structured Outputs", supported schemas; the messages are those that its API is
        known to answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specguide.errors import InvalidGuide

_MAX_DEPTH, _MAX_PROPERTIES, _MAX_ENUM_VALUES, _MAX_CHARACTERS = 10, 5000, 1000, 120_000
_MAX_LONG_ENUM, _MAX_ENUM_CHARACTERS = 250, 15_000
_KEYWORDS = frozenset(
    {
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "definitions",
        "title",
        "description",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "enum",
        "const",
        "anyOf",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "default",
        "examples",
    }
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

Context = tuple[str, ...]


def check_strict(schema: Any, what: str, param: str) -> None:
    """Raises InvalidGuide for a schema outside the subset.

    what:  "response_format 'name'" or "function 'name'"
    param: the request's field that holds the schema
    """
    fault = next(_faults(schema), None)
    if fault is not None:
        raise InvalidGuide(f"Invalid schema for {what}: {fault}", param=param)


def _faults(schema: Any) -> Iterator[str]:
    kind = schema.get("type") if isinstance(schema, Mapping) else schema
    if kind != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        return
    nodes = list(_nodes(schema, ()))
    for context, node in nodes:
        fault = _fault(node)
        if fault is not None:
            yield f"In context={context}, {fault}"
    yield from _limits(schema, nodes)


def _nodes(node: Any, context: Context) -> Iterator[tuple[Context, Any]]:
    """A schema and all its subschemas, each with the keys that lead to it."""
    yield context, node
    if not isinstance(node, Mapping):
        return
    for keyword in ("properties", "$defs", "definitions"):
        if isinstance(node.get(keyword), Mapping):
            for name, child in node[keyword].items():
                yield from _nodes(child, (*context, keyword, name))
    if "items" in node:
        yield from _nodes(node["items"], (*context, "items"))
    if isinstance(node.get("anyOf"), list):
        for index, child in enumerate(node["anyOf"]):
            yield from _nodes(child, (*context, "anyOf", str(index)))


def _fault(node: Any) -> str | None:
    if not isinstance(node, Mapping):
        return f"{node!r} is not of type 'object'."
    unknown = next((keyword for keyword in node if keyword not in _KEYWORDS), None)
    if unknown is not None:
        return f"'{unknown}' is not permitted."
    if "format" in node and str(node["format"]) not in _FORMATS:
        return f"'{node['format']}' is not a valid format."
    if not any(keyword in node for keyword in ("type", "$ref", "anyOf", "enum", "const")):
        return "schema must have a 'type' key."
    kinds = node["type"] if isinstance(node.get("type"), list) else [node.get("type")]
    if "array" in kinds and "items" not in node:
        return "array schema missing items."
    return _object_fault(node) if "object" in kinds or "properties" in node else None


def _object_fault(node: Mapping[str, Any]) -> str | None:
    if node.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    required = {name for name in _list(node, "required") if isinstance(name, str)}
    missing = next((name for name in _mapping(node, "properties") if name not in required), None)
    if missing is not None:
        return (
            "'required' is required to be supplied and to be an array including every key in "
            f"properties. Missing '{missing}'."
        )
    return None


def _mapping(node: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    """A keyword's value; empty where it has another type, which the compile will refuse."""
    value = node.get(keyword)
    return value if isinstance(value, Mapping) else {}


def _list(node: Mapping[str, Any], keyword: str) -> list[Any]:
    value = node.get(keyword)
    return value if isinstance(value, list) else []


def _limits(schema: Mapping[str, Any], nodes: list[tuple[Context, Any]]) -> Iterator[str]:
    depth = max(sum(key in ("properties", "items") for key in context[::2]) for context, _ in nodes)
    names = [name for _, node in nodes for name in _mapping(node, "properties")]
    values = [value for _, node in nodes for value in _list(node, "enum")]
    characters = (
        sum(map(len, names))
        + sum(len(name) for name in _mapping(schema, "$defs"))
        + sum(
            len(value)
            for value in [*values, *(node.get("const") for _, node in nodes)]
            if isinstance(value, str)
        )
    )
    for found, most, words in (
        (depth, _MAX_DEPTH, "levels of nesting"),
        (len(names), _MAX_PROPERTIES, "properties"),
        (len(values), _MAX_ENUM_VALUES, "enum values"),
        (characters, _MAX_CHARACTERS, "characters of names and values"),
    ):
        if found > most:
            yield f"Expected at most {most} {words} in total, found {found}."
    for context, node in nodes:
        texts = [value for value in _list(node, "enum") if isinstance(value, str)]
        if len(texts) > _MAX_LONG_ENUM and sum(map(len, texts)) > _MAX_ENUM_CHARACTERS:
            yield (
                f"In context={context}, an enum of more than {_MAX_LONG_ENUM} values may have at "
                f"most {_MAX_ENUM_CHARACTERS} characters."
            )
