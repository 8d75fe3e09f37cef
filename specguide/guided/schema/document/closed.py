"""Owns what becomes of a JSON schema whose objects are to have no properties but those it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA = ("items", "additionalProperties", "contains", "unevaluatedItems")
_LIST = ("anyOf", "oneOf", "prefixItems")


def closed(schema: Any) -> Any:
    """The schema, in which objects that name properties have no others, unless they say which.

    Parts of an `allOf`, `not`, `if` or `$ref` beside other keywords stay open: each of them sees
    properties that another one names.
    """
    return _closed(schema, may_close=True)


def _closed(schema: Any, *, may_close: bool = True) -> Any:
    """may_close: no keyword beside it names properties of the same object"""
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    names_some = "properties" in schema or "patternProperties" in schema
    for keyword, value in schema.items():
        if keyword in _OF_SCHEMAS and isinstance(value, Mapping):
            made[keyword] = {name: _closed(one) for name, one in value.items()}
        elif keyword in _SCHEMA:
            made[keyword] = _closed(value)
        elif keyword in _LIST and isinstance(value, list):
            is_whole = keyword == "prefixItems" or not names_some
            made[keyword] = [_closed(one, may_close=is_whole and may_close) for one in value]
        elif keyword == "items" and isinstance(value, list):
            made[keyword] = [_closed(one) for one in value]
    is_combined = any(word in schema for word in ("allOf", "anyOf", "oneOf", "if", "$ref", "not"))
    is_open = "additionalProperties" not in schema and "unevaluatedProperties" not in schema
    if names_some and is_open and may_close and not is_combined:
        made["additionalProperties"] = False
    return made
