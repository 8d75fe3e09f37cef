"""Owns the closing of objects: in a closed JSON Schema they have only the properties it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA = ("items", "additionalProperties", "contains", "unevaluatedItems")
_LIST = ("anyOf", "oneOf", "prefixItems")


def closed(schema: Any) -> Any:
    """Returns the schema with `additionalProperties: false` in objects that name properties and say
    nothing about others.

    Subschemas beside other keywords that may name properties of the same object, as in `allOf`,
    stay open.
    """
    return _closed(schema, may_close=True)


def _closed(schema: Any, *, may_close: bool = True) -> Any:
    """may_close: no keyword beside this schema names properties of the same object"""
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    names_some = "properties" in schema or "patternProperties" in schema
    for keyword, value in schema.items():
        if keyword in _OF_SCHEMAS and isinstance(value, Mapping):
            made[keyword] = {name: _closed(child) for name, child in value.items()}
        elif keyword in _SCHEMA:
            made[keyword] = _closed(value)
        elif keyword in _LIST and isinstance(value, list):
            is_whole = keyword == "prefixItems" or not names_some
            made[keyword] = [_closed(child, may_close=is_whole and may_close) for child in value]
        elif keyword == "items" and isinstance(value, list):
            made[keyword] = [_closed(child) for child in value]
    is_combined = any(word in schema for word in ("allOf", "anyOf", "oneOf", "if", "$ref", "not"))
    is_open = "additionalProperties" not in schema and "unevaluatedProperties" not in schema
    if names_some and is_open and may_close and not is_combined:
        made["additionalProperties"] = False
    return made
