"""Owns the keywords of JSON Schema that the fields of a core node stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from specguide.guided.budget import kept_of, spend
from specguide.guided.schema.core.nodes import (
    ANYTHING,
    NO_ARRAYS,
    NO_NUMBERS,
    NO_OBJECTS,
    NO_STRINGS,
    Arrays,
    Core,
    CoreSchema,
    Kinds,
    Node,
    Numbers,
    Objects,
    Strings,
)
from specguide.guided.schema.json_values import Json

Value: TypeAlias = Core | tuple[Core, ...] | Mapping[str, Core] | Json
"""A keyword's value. Nodes occur as the value itself, in a tuple, or as values of a mapping."""

NO_INTEGER = {"type": "integer"}
"""The `not` of numbers that are not integers. The core has a `not` for numbers only."""

UNIQUE_ITEMS = "uniqueItems"
"""The only keyword of the core that no library is given: a guard beside the grammar enforces it."""

_DEFINITIONS = "#/$defs/"


def keywords(node: Node) -> dict[str, Value]:
    """Returns the keywords of a node with their values, in a fixed order."""
    found = {} if node.kinds is ANYTHING else _of_kinds(node.kinds)
    if node.values is not None:
        found["enum"] = node.values
    if node.any_of:
        found["anyOf"] = node.any_of
    if node.all_of:
        found["allOf"] = node.all_of
    if node.ref is not None:
        found["$ref"] = _DEFINITIONS + node.ref
    return found


def _of_kinds(kinds: Kinds) -> dict[str, Value]:
    found: dict[str, Value] = {}
    if kinds.types is not None:
        found["type"] = kinds.types[0] if len(kinds.types) == 1 else kinds.types
    if kinds.numbers is not NO_NUMBERS:
        found |= _said(_of_numbers(kinds.numbers))
    if kinds.strings is not NO_STRINGS:
        found |= _said(_of_strings(kinds.strings))
    if kinds.arrays is not NO_ARRAYS:
        found |= _said(_of_arrays(kinds.arrays))
    if kinds.objects is not NO_OBJECTS:
        found |= _said(_of_objects(kinds.objects))
    return found


def _of_numbers(asked: Numbers) -> dict[str, Value | None]:
    return {
        "minimum": asked.minimum,
        "exclusiveMinimum": asked.exclusive_minimum,
        "maximum": asked.maximum,
        "exclusiveMaximum": asked.exclusive_maximum,
        "multipleOf": asked.multiple_of,
        "not": _not_of_numbers(asked) if asked.negates else None,
    }


def _not_of_numbers(asked: Numbers) -> Json:
    steps = [{"multipleOf": step} for step in asked.not_multiples]
    if not steps:
        return NO_INTEGER
    return {"anyOf": [NO_INTEGER, *steps] if asked.is_fraction else steps}


def _of_strings(asked: Strings) -> dict[str, Value | None]:
    return {
        "minLength": asked.min_length,
        "maxLength": asked.max_length,
        "pattern": asked.pattern,
    }


def _of_arrays(asked: Arrays) -> dict[str, Value | None]:
    return {
        "minItems": asked.min_items,
        "maxItems": asked.max_items,
        "prefixItems": asked.prefix or None,
        "items": None if asked.rest is True else asked.rest,
        UNIQUE_ITEMS: True if asked.is_distinct else None,
    }


def _of_objects(asked: Objects) -> dict[str, Value | None]:
    return {
        "properties": asked.properties or None,
        "patternProperties": asked.patterns or None,
        "additionalProperties": None if asked.additional is True else asked.additional,
        "required": asked.required or None,
        "maxProperties": asked.max_properties,
        "minProperties": asked.min_properties,
    }


def weight(core: Core | CoreSchema) -> int:
    """Returns the size of a core schema when written: a unit for each value, and one for every 16
    characters of text. Shared parts count each time. The weight of a CoreSchema is remembered."""
    return kept_of(_weight, core) if isinstance(core, CoreSchema) else _weight(core)


def _weight(core: Core | CoreSchema) -> int:
    weights = _Weights()
    if isinstance(core, CoreSchema):
        return weights.of(core.root) + (weights.of(core.definitions) if core.definitions else 0)
    return weights.of(core)


class _Weights:
    """Computes `weight`. The weight of a node is one more than that of the values and names of its
    `keywords`."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, part: Value) -> int:
        if isinstance(part, str):
            return 1 + len(part) // 16
        if not isinstance(part, (Node, dict, tuple, list)):
            return 1
        known = self._known.get(id(part))
        if known is None:
            spend()
            known = 1 + (self._of_node(part) if isinstance(part, Node) else self._inside(part))
            self._known[id(part)] = known
        return known

    def _inside(self, parts: Mapping[str, Value] | Sequence[Value]) -> int:
        if not isinstance(parts, dict):
            return sum(map(self.of, parts))
        return sum(map(self.of, parts.values())) + sum(len(name) // 16 for name in parts)

    def _of_node(self, node: Node) -> int:
        kinds, total = node.kinds, 0
        if kinds.types is not None:
            total += 1 if len(kinds.types) == 1 else 1 + len(kinds.types)
        if kinds.numbers is not NO_NUMBERS:
            total += self._inside(_said(_of_numbers(kinds.numbers)))
        if kinds.strings is not NO_STRINGS:
            total += self._inside(_said(_of_strings(kinds.strings)))
        if kinds.arrays is not NO_ARRAYS:
            total += self._inside(_said(_of_arrays(kinds.arrays)))
        if kinds.objects is not NO_OBJECTS:
            total += self._of_objects(kinds.objects)
        for several in (node.values, node.any_of or None, node.all_of or None):
            total += 0 if several is None else self.of(several)
        return total if node.ref is None else total + self.of(_DEFINITIONS + node.ref)

    def _of_objects(self, asked: Objects) -> int:
        total = sum(self.of(one) for one in (asked.properties, asked.required) if one)
        if asked.patterns:
            total += self.of(asked.patterns) + len("patternProperties") // 16
        if asked.additional is not True:
            total += self.of(asked.additional) + len("additionalProperties") // 16
        return total + (asked.min_properties is not None) + (asked.max_properties is not None)


def _said(found: dict[str, Value | None]) -> dict[str, Value]:
    return {keyword: value for keyword, value in found.items() if value is not None}
