"""Owns the negation of enumerated values, type by type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import (
    Arrays,
    Numbers,
    Objects,
    arrays,
    numbers,
    objects,
    one_of_values,
    typed,
)
from specguide.guided.schema.json_values import TYPES, Json, Number, json_type
from specguide.guided.schema.negation.forms import (
    Choice,
    Every,
    Form,
    OtherWords,
    WithItem,
    WithProperty,
)


def other_values(values: Sequence[Json], path: str, keyword: str = "const") -> Iterator[Form]:
    """Yields the forms of all values except those that `keyword` lists."""
    spend(8 + 4 * len(values))
    by_type: dict[str, list[Json]] = {
        name: [value for value in values if json_type(value) == name] for name in TYPES
    }
    types = [name for name, of_type in by_type.items() if not of_type]
    yield typed(path, *types) if types else False
    if by_type["boolean"]:
        yield one_of_values(path, (one for one in (True, False) if one not in by_type["boolean"]))
    if by_type["number"]:
        yield from _other_numbers(sorted(by_type["number"]), path)
    if by_type["string"]:
        yield OtherWords(path, keyword, frozenset(by_type["string"]))
    for name, others_than in (("array", _other_arrays), ("object", _other_objects)):
        if by_type[name]:
            yield Every(
                path, tuple(Choice(path, tuple(others_than(one, path))) for one in by_type[name])
            )


def _other_numbers(values: list[Number], path: str) -> Iterator[Form]:
    for low, high in zip([None, *values], [*values, None], strict=True):
        if low is None or high is None or low < high:
            yield numbers(path, Numbers(exclusive_minimum=low, exclusive_maximum=high))


def _other_arrays(value: list[Json], path: str) -> Iterator[Form]:
    """Arrays that are shorter or longer, or differ in an item."""
    if value:
        yield arrays(path, Arrays(max_items=len(value) - 1))
    yield arrays(path, Arrays(min_items=len(value) + 1))
    for i, item in enumerate(value):
        yield WithItem(path, i, _other_value(item, path))


def _other_objects(value: dict[str, Json], path: str) -> Iterator[Form]:
    """Objects that lack a property or differ in its value."""
    if not value:
        yield objects(path, Objects(min_properties=1))
    for name, item in value.items():
        yield objects(path, Objects({name: False}))
        yield WithProperty(path, name, _other_value(item, path))


def _other_value(value: Json, path: str) -> Form:
    return Choice(path, tuple(other_values([value], path)))
