"""Owns JSON values: their types, when two of them are equal, and numbers as they are written."""

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
"""The types of JSON values; integers are numbers."""

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
    """The JSON Schema type of a value; integers are numbers."""
    found = _NAMES.get(type(value))
    if found is not None:
        return found
    return next((name for name, cls in _CLASSES if isinstance(value, cls)), "object")


def is_object(value: Json) -> bool:
    """Whether a JSON value is an object. To ask for a Mapping takes ten times as long as to ask for
    a type."""
    kind = type(value)
    return kind is dict or (kind not in _NAMES and isinstance(value, Mapping))


def value_key(value: Json) -> Key:
    """Equal for equal JSON values, and for no others: 1 equals 1.0, and true does not equal 1.
    Begins with the type."""
    spend()
    name = json_type(value)
    if name == "array":
        return name, tuple(map(value_key, value))
    if name == "object":
        return name, frozenset((key, value_key(item)) for key, item in value.items())
    return name, value


def keys_by_type(values: Sequence[Json]) -> dict[str, set[Key]]:
    """For each type, the keys of the values of that type. They are made once, so the values must
    not change."""
    return kept_of(_keys_by_type, values)


def _keys_by_type(values: Sequence[Json]) -> dict[str, set[Key]]:
    found: dict[str, set[Key]] = {}
    for key in map(value_key, values):
        found.setdefault(key[0], set()).add(key)
    return found


def is_number(value: Json) -> bool:
    """A JSON number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has_type(value: Json, names: Sequence[str] | None) -> bool:
    """Whether a value is of one of the types that JSON Schema's `type` names; None names all."""
    if names is None:
        return True
    name = json_type(value)
    return name in names or ("integer" in names and name == "number" and value == int(value))


def named_types(schema: Mapping[str, Json]) -> tuple[str, ...] | None:
    """What `type` in a subschema names, one or several; None where it has none."""
    named = schema.get("type")
    if named is None:
        return None
    return (named,) if isinstance(named, str) else tuple(named)


def exact(number: Number) -> Fraction:
    """A number as it is written in decimal."""
    return Fraction(repr(number))
