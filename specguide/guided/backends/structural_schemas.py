"""Owns what xgrammar is told of the JSON schemas inside a structural tag: bounded whitespace, and open objects.

Inside structural tags xgrammar refuses properties and items that a schema does not name, and there is no option for it;
so where JSON Schema allows them, the schema says it in so many words.
"""

from __future__ import annotations

from typing import Any

from specguide.config import GuideConfig

_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains",
            "propertyNames")


def for_xgrammar(node: Any, limits: GuideConfig) -> Any:
    """A structural tag whose schemas bound whitespace by `limits.max_whitespace` where they do not say otherwise."""
    if isinstance(node, list):
        return [for_xgrammar(item, limits) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "json_schema" and "json_schema" in node:
        most = node.get("max_whitespace_cnt") or max(1, limits.max_whitespace)
        return {**node, "json_schema": _opened(node["json_schema"]), "max_whitespace_cnt": most}
    return {name: for_xgrammar(value, limits) for name, value in node.items()}


def _opened(schema: Any) -> Any:
    """The same schema with JSON Schema's default for unnamed properties and items written out."""
    if not isinstance(schema, dict) or _mentions_unevaluated(schema):
        return schema
    opened = dict(schema)
    for name in _SCHEMA_MAPS:
        if isinstance(schema.get(name), dict):
            opened[name] = {key: _opened(value) for key, value in schema[name].items()}
    for name in _SCHEMA_LISTS:
        if isinstance(schema.get(name), list):
            opened[name] = [_opened(value) for value in schema[name]]
    for name in _SCHEMAS:
        if isinstance(schema.get(name), dict):
            opened[name] = _opened(schema[name])
    if schema.get("type") == "object" or "properties" in schema:
        opened.setdefault("additionalProperties", True)
    if "prefixItems" in schema:
        opened.setdefault("items", True)
    return opened


def _mentions_unevaluated(value: Any) -> bool:
    if isinstance(value, dict):
        return any(name.startswith("unevaluated") or _mentions_unevaluated(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_mentions_unevaluated, value))
