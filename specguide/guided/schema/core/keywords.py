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
    values = {} if node.kinds is ANYTHING else _of_kinds(node.kinds)
    if node.values is not None:
        values["enum"] = node.values
    if node.any_of:
        values["anyOf"] = node.any_of
    if node.all_of:
        values["allOf"] = node.all_of
    if node.ref is not None:
        values["$ref"] = _DEFINITIONS + node.ref
    return values


def _of_kinds(kinds: Kinds) -> dict[str, Value]:
    values: dict[str, Value] = {}
    if kinds.types is not None:
        values["type"] = kinds.types[0] if len(kinds.types) == 1 else kinds.types
    if kinds.numbers is not NO_NUMBERS:
        values |= _without_none(_of_numbers(kinds.numbers))
    if kinds.strings is not NO_STRINGS:
        values |= _without_none(_of_strings(kinds.strings))
    if kinds.arrays is not NO_ARRAYS:
        values |= _without_none(_of_arrays(kinds.arrays))
    if kinds.objects is not NO_OBJECTS:
        values |= _without_none(_of_objects(kinds.objects))
    return values


def _of_numbers(numbers: Numbers) -> dict[str, Value | None]:
    return {
        "minimum": numbers.minimum,
        "exclusiveMinimum": numbers.exclusive_minimum,
        "maximum": numbers.maximum,
        "exclusiveMaximum": numbers.exclusive_maximum,
        "multipleOf": numbers.multiple_of,
        "not": _not_of_numbers(numbers) if numbers.negates else None,
    }


def _not_of_numbers(numbers: Numbers) -> Json:
    steps = [{"multipleOf": step} for step in numbers.not_multiples]
    if not steps:
        return NO_INTEGER
    return {"anyOf": [NO_INTEGER, *steps] if numbers.is_fraction else steps}


def _of_strings(strings: Strings) -> dict[str, Value | None]:
    return {
        "minLength": strings.min_length,
        "maxLength": strings.max_length,
        "pattern": strings.pattern,
    }


def _of_arrays(arrays: Arrays) -> dict[str, Value | None]:
    return {
        "minItems": arrays.min_items,
        "maxItems": arrays.max_items,
        "prefixItems": arrays.prefix or None,
        "items": None if arrays.rest is True else arrays.rest,
        UNIQUE_ITEMS: True if arrays.is_distinct else None,
    }


def _of_objects(objects: Objects) -> dict[str, Value | None]:
    return {
        "properties": objects.properties or None,
        "patternProperties": objects.patterns or None,
        "additionalProperties": None if objects.additional is True else objects.additional,
        "required": objects.required or None,
        "maxProperties": objects.max_properties,
        "minProperties": objects.min_properties,
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
            total += self._inside(_without_none(_of_numbers(kinds.numbers)))
        if kinds.strings is not NO_STRINGS:
            total += self._inside(_without_none(_of_strings(kinds.strings)))
        if kinds.arrays is not NO_ARRAYS:
            total += self._inside(_without_none(_of_arrays(kinds.arrays)))
        if kinds.objects is not NO_OBJECTS:
            total += self._of_objects(kinds.objects)
        for several in (node.values, node.any_of or None, node.all_of or None):
            total += 0 if several is None else self.of(several)
        return total if node.ref is None else total + self.of(_DEFINITIONS + node.ref)

    def _of_objects(self, objects: Objects) -> int:
        total = sum(self.of(one) for one in (objects.properties, objects.required) if one)
        if objects.patterns:
            total += self.of(objects.patterns) + len("patternProperties") // 16
        if objects.additional is not True:
            total += self.of(objects.additional) + len("additionalProperties") // 16
        return total + (objects.min_properties is not None) + (objects.max_properties is not None)


def _without_none(values: dict[str, Value | None]) -> dict[str, Value]:
    return {keyword: value for keyword, value in values.items() if value is not None}
