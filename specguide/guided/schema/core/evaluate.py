"""Owns the check that a JSON value is an instance of a core schema, needed where an enum lists few
values."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Arrays, Core, Node, Numbers, Objects, Strings
from specguide.guided.schema.core.patterns import pattern_matches
from specguide.guided.schema.json_values import (
    Json,
    Number,
    exact,
    has_type,
    json_type,
    keys_by_type,
    value_key,
)

Definitions = Mapping[str, Core]


def takes(core: Core, value: Json, definitions: Definitions) -> bool:
    """Whether `value` is an instance of `core`, whose references point into `definitions`."""
    spend(4)
    if isinstance(core, bool):
        return core
    if core.ref is not None and not takes(definitions[core.ref], value, definitions):
        return False
    if not all(takes(part, value, definitions) for part in core.all_of):
        return False
    if core.any_of and not any(takes(option, value, definitions) for option in core.any_of):
        return False
    if core.values is not None and not _lists(core.values, value):
        return False
    return has_type(value, core.kinds.types) and _takes_kind(core, value, definitions)


def _lists(values: tuple[Json, ...], value: Json) -> bool:
    return value_key(value) in keys_by_type(values).get(json_type(value), ())


def _takes_kind(node: Node, value: Json, definitions: Definitions) -> bool:
    """Whether a value meets the constraints of its type."""
    name = json_type(value)
    if name == "number":
        return _takes_number(node.kinds.numbers, value)
    if name == "string":
        return _takes_string(node.kinds.strings, value)
    if name == "array":
        return _takes_array(node.kinds.arrays, value, definitions)
    return name != "object" or _takes_object(node.kinds.objects, value, definitions)


def _takes_number(numbers: Numbers, value: Number) -> bool:
    if numbers.is_fraction and exact(value).denominator == 1:
        return False
    if numbers.multiple_of is not None and exact(value) % exact(numbers.multiple_of) != 0:
        return False
    if any(exact(value) % exact(step) == 0 for step in numbers.not_multiples):
        return False
    return (
        (numbers.minimum is None or numbers.minimum <= value)
        and (numbers.maximum is None or value <= numbers.maximum)
        and (numbers.exclusive_minimum is None or numbers.exclusive_minimum < value)
        and (numbers.exclusive_maximum is None or value < numbers.exclusive_maximum)
    )


def _takes_string(strings: Strings, value: str) -> bool:
    return _is_counted(len(value), strings.min_length, strings.max_length) and (
        strings.pattern is None or pattern_matches(strings.pattern, value)
    )


def _takes_array(arrays: Arrays, value: list[Json], definitions: Definitions) -> bool:
    wanted = [*arrays.prefix[: len(value)], *[arrays.rest] * (len(value) - len(arrays.prefix))]
    if arrays.is_distinct and len(set(map(value_key, value))) < len(value):
        return False
    return _is_counted(len(value), arrays.min_items, arrays.max_items) and all(
        takes(child, item, definitions) for child, item in zip(wanted, value, strict=True)
    )


def _takes_object(objects: Objects, value: dict[str, Json], definitions: Definitions) -> bool:
    return (
        _is_counted(len(value), objects.min_properties, objects.max_properties)
        and all(name in value for name in objects.required)
        and all(
            takes(child, item, definitions)
            for name, item in value.items()
            for child in schemas_of_property(objects, name)
        )
    )


def _is_counted(count: int, least: int | None, most: int | None) -> bool:
    return (least is None or least <= count) and (most is None or count <= most)


def schemas_of_property(objects: Objects, name: str) -> list[Core]:
    """Returns the subschemas that apply to the property `name` of an object."""
    matching = [objects.properties[name]] if name in objects.properties else []
    if not objects.patterns:
        return matching or [objects.additional]
    matching += [
        child for pattern, child in objects.patterns.items() if pattern_matches(pattern, name)
    ]
    return matching or [objects.additional]
