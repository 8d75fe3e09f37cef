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


def _takes_number(asked: Numbers, value: Number) -> bool:
    if asked.is_fraction and exact(value).denominator == 1:
        return False
    if asked.multiple_of is not None and exact(value) % exact(asked.multiple_of) != 0:
        return False
    if any(exact(value) % exact(one) == 0 for one in asked.not_multiples):
        return False
    return (
        (asked.minimum is None or asked.minimum <= value)
        and (asked.maximum is None or value <= asked.maximum)
        and (asked.exclusive_minimum is None or asked.exclusive_minimum < value)
        and (asked.exclusive_maximum is None or value < asked.exclusive_maximum)
    )


def _takes_string(asked: Strings, value: str) -> bool:
    return _is_counted(len(value), asked.min_length, asked.max_length) and (
        asked.pattern is None or pattern_matches(asked.pattern, value)
    )


def _takes_array(asked: Arrays, value: list[Json], definitions: Definitions) -> bool:
    wanted = [*asked.prefix[: len(value)], *[asked.rest] * (len(value) - len(asked.prefix))]
    if asked.is_distinct and len(set(map(value_key, value))) < len(value):
        return False
    return _is_counted(len(value), asked.min_items, asked.max_items) and all(
        takes(child, item, definitions) for child, item in zip(wanted, value, strict=True)
    )


def _takes_object(asked: Objects, value: dict[str, Json], definitions: Definitions) -> bool:
    return (
        _is_counted(len(value), asked.min_properties, asked.max_properties)
        and all(name in value for name in asked.required)
        and all(
            takes(child, item, definitions)
            for name, item in value.items()
            for child in asked_of(asked, name)
        )
    )


def _is_counted(count: int, least: int | None, most: int | None) -> bool:
    return (least is None or least <= count) and (most is None or count <= most)


def asked_of(asked: Objects, name: str) -> list[Core]:
    """Returns the subschemas that apply to the property `name` of an object."""
    found = [asked.properties[name]] if name in asked.properties else []
    if not asked.patterns:
        return found or [asked.additional]
    found += [child for pattern, child in asked.patterns.items() if pattern_matches(pattern, name)]
    return found or [asked.additional]
