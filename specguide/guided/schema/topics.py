"""Owns the topics of JSON Schema's keywords: which of them constrain numbers, strings and so on."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.schema.json_values import TYPES, Json, named_types

NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
STRING = ("minLength", "maxLength", "pattern", "format")
ARRAY = (
    "prefixItems",
    "items",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
)
OBJECT = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "unevaluatedProperties",
)
DEPENDENCIES = ("dependencies", "dependentRequired", "dependentSchemas")
DYNAMIC = ("$dynamicRef", "$recursiveRef")

_TOPICS: dict[str, tuple[str, ...]] = {
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
    "dependencies": DEPENDENCIES,
    "values": ("const", "enum"),
    "dynamic": DYNAMIC,
    **{keyword: (keyword,) for keyword in ("type", "$ref", "allOf", "anyOf", "oneOf", "not", "if")},
}
TOPIC_OF = {keyword: topic for topic, keywords in _TOPICS.items() for keyword in keywords}
"""Keyword → its topic: the name of a type if the keyword constrains values of that type only. Other
keywords are annotations or unknown."""


def allowed_types(schema: Mapping[str, Json]) -> frozenset[str]:
    """Returns the types that a subschema's own `type` allows; integers count as numbers."""
    names = named_types(schema) or TYPES
    return frozenset("number" if name == "integer" else name for name in names)


def takes_all(schema: Json, name: str) -> bool:
    """Whether every value of the type `name` is an instance of a subschema, as far as its keywords
    alone tell."""
    if isinstance(schema, bool):
        return schema
    if name == "number" and "number" not in (named_types(schema) or TYPES):
        return False  # integers at most
    topics = {TOPIC_OF[keyword] for keyword in schema if keyword in TOPIC_OF} - {"type"}
    if "dependencies" in topics:
        topics = topics - {"dependencies"} | {"object"}
    return name in allowed_types(schema) and topics <= set(TYPES) - {name}
