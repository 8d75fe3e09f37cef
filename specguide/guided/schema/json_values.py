"""Owns JSON values: their types, their equality, and the exact value of their numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from specguide.guided.budget import kept_of, spend

Json: TypeAlias = Any
"""A JSON value as Python's `json` reads it."""

JsonSchema: TypeAlias = Mapping[str, Json] | bool
"""A JSON Schema as a user wrote it."""

Number: TypeAlias = int | float

Key: TypeAlias = tuple[str, Hashable]

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""The types of JSON values; integers count as numbers."""

EVERY_TYPE = frozenset(TYPES)

_NAMES: dict[type, str] = {
    **{type(None): "null", bool: "boolean", int: "number", float: "number"},
    **{str: "string", list: "array", dict: "object"},
}
_CLASSES: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("null", type(None)),
    ("boolean", bool),
    ("number", (int, float)),
    ("string", str),
    ("array", list),
)


def json_type(value: Json) -> str:
    """Returns the JSON Schema type of a value; integers count as numbers."""
    found = _NAMES.get(type(value))
    if found is not None:
        return found
    return next((name for name, cls in _CLASSES if isinstance(value, cls)), "object")


def is_object(value: Json) -> bool:
    """Whether a JSON value is an object. Looking at its type first is ten times as fast as the test
    for a Mapping."""
    kind = type(value)
    return kind is dict or (kind not in _NAMES and isinstance(value, Mapping))


def value_key(value: Json) -> Key:
    """Returns a hashable key, which begins with the type. Keys are equal exactly for values that
    are equal in JSON: 1 equals 1.0, and true does not equal 1."""
    spend()
    name = json_type(value)
    if name == "array":
        return name, tuple(map(value_key, value))
    if name == "object":
        return name, frozenset((key, value_key(item)) for key, item in value.items())
    return name, value


def keys_by_type(values: Sequence[Json]) -> dict[str, set[Key]]:
    """Returns the keys of the values, by type. The result is remembered: the values must not
    change."""
    return kept_of(_keys_by_type, values)


def _keys_by_type(values: Sequence[Json]) -> dict[str, set[Key]]:
    keys: dict[str, set[Key]] = {}
    for key in map(value_key, values):
        keys.setdefault(key[0], set()).add(key)
    return keys


def needs_no_escape(text: str) -> bool:
    """Whether JSON writes a text without escapes, also where it is limited to ASCII."""
    return text.isascii() and text.isprintable() and not {'"', "\\"} & set(text)


def is_number(value: Json) -> bool:
    """Whether a value is a JSON number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has_type(value: Json, names: Sequence[str] | None) -> bool:
    """Whether a value has one of the types in `names`, which are those of `type`; None: any."""
    if names is None:
        return True
    name = json_type(value)
    return name in names or ("integer" in names and name == "number" and value == int(value))


def named_types(schema: Mapping[str, Json]) -> tuple[str, ...] | None:
    """Returns the types that `type` of a subschema names; None where it has no `type`."""
    named = schema.get("type")
    if named is None:
        return None
    return (named,) if isinstance(named, str) else tuple(named)


def exact(number: Number) -> Fraction:
    """Returns a number's decimal value as a fraction."""
    return Fraction(repr(number))
