"""Owns which keywords of JSON Schema contain subschemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from specguide.guided.schema.json_values import Json, is_object
from specguide.guided.schema.pointers import escaped

_IN_ONE = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "additionalProperties",
        "propertyNames",
        "contains",
        "contentSchema",
        "additionalItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "items",
    }
)
_IN_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_IN_MAP = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)
_HOLDING = _IN_ONE | _IN_LIST | _IN_MAP


def subschemas(schema: Mapping[str, Json]) -> Iterator[tuple[str, str, Mapping[str, Json]]]:
    """Yields the direct subschemas of a schema, except `true` and `false`: (keyword, JSON pointer
    from the schema, subschema)."""
    for keyword, value in schema.items():
        if keyword not in _HOLDING:
            continue
        if keyword in _IN_ONE and is_object(value):
            yield keyword, f"/{keyword}", value
        elif keyword in _IN_LIST and isinstance(value, list):
            for i, child in enumerate(value):
                if is_object(child):
                    yield keyword, f"/{keyword}/{i}", child
        elif keyword in _IN_MAP and is_object(value):
            for name, child in value.items():
                if is_object(child):
                    yield keyword, f"/{keyword}/{escaped(name)}", child


def with_subschemas(schema: Mapping[str, Json], make: Callable[[Json], Json]) -> dict[str, Json]:
    """Returns the schema with each direct subschema, `true` and `false` included, replaced by
    `make` of it."""
    return {keyword: _made(keyword, value, make) for keyword, value in schema.items()}


def _made(keyword: str, value: Json, make: Callable[[Json], Json]) -> Json:
    if keyword in _IN_LIST and isinstance(value, list):
        return list(map(make, value))
    if keyword in _IN_MAP and is_object(value):
        return {name: make(child) for name, child in value.items()}
    return make(value) if keyword in _IN_ONE else value
