"""Owns the lowering of array keywords."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from math import prod

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.core.keywords import weight
from specguide.guided.schema.core.nodes import (
    NO_ARRAYS,
    Arrays,
    Core,
    Kinds,
    Node,
    all_of,
    any_of,
    arrays,
    listed,
    refuse,
    typed,
)
from specguide.guided.schema.document.cycles import cycle
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import TYPES, Json, value_key
from specguide.guided.schema.lowering.lowering import Lowering
from specguide.guided.schema.lowering.unevaluated import Evaluated, asserted, ways_of_items

_MAX_CONTAINS = 64
_MAX_PLACED = 4
_MAX_PLACES = 12
_MAX_DISTINCT = 8
_MAX_SPELT_OUT = 64
_NO_ARRAY = tuple(name for name in TYPES if name != "array")


def lower_array(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """Yields the core of a subschema's array keywords. With `contains`, the first items must meet
    it."""
    prefix, rest = _items(lowering, schema, place)
    ways = _unevaluated(lowering, schema, place)
    if len(ways) == 1:
        _, others = ways[0]
        prefix += others.prefix[len(prefix) :]
        rest = all_of(place.path, [rest, others.rest])
    least, most = (_count(schema, keyword) for keyword in ("minItems", "maxItems"))
    yield from _counted(lowering, schema, Arrays(least, most, prefix, rest), place)
    if "contains" in schema:
        yield Node(place.path, all_of=(_contains(lowering, schema, place),))
    if len(ways) > 1:
        options = (
            all_of(place.path, [*parts, Node(place.path, Kinds(arrays=one))]) for parts, one in ways
        )
        yield any_of(place.path, options)


def _counted(
    lowering: Lowering, schema: Mapping[str, Json], arrays: Arrays, place: Place
) -> Iterator[Core]:
    """The arrays, with distinct items for `uniqueItems`."""
    if schema.get("uniqueItems") and not _holds_one_item(arrays):
        tells_apart = lowering.capabilities.tells_items_apart
        spelt_out = _spelt_out(arrays, place.path, tells_apart=tells_apart)
        if spelt_out is not None:
            yield spelt_out
            return
        if tells_apart:
            arrays = replace(arrays, is_distinct=True)
        else:
            with at_work("uniqueItems", place.path):
                yield any_of(place.path, _distinct(lowering, schema, arrays, place))
    yield Node(place.path, Kinds(arrays=arrays))


def _count(schema: Mapping[str, Json], keyword: str) -> int | None:
    return int(schema[keyword]) if keyword in schema else None


def _items(
    lowering: Lowering, schema: Mapping[str, Json], place: Place
) -> tuple[tuple[Core, ...], Core]:
    """The subschemas of the first items, and that of the others."""
    items = schema.get("items", True)
    if isinstance(items, list):  # up to 2019-09; later drafts do not allow a list
        prefix, rest, keyword = items, schema.get("additionalItems", True), "additionalItems"
        step = "items"
    else:
        prefix = schema.get("prefixItems", []) if lowering.document.draft >= 2020 else []
        rest, keyword, step = items, "items", "prefixItems"
    lowered = [lowering.lower(child, place / step / i) for i, child in enumerate(prefix)]
    return tuple(lowered), lowering.lower(rest, place / keyword)


def _unevaluated(
    lowering: Lowering, schema: Mapping[str, Json], place: Place
) -> list[tuple[list[Core], Arrays]]:
    """The ways in which items are evaluated beside `unevaluatedItems`: what each asserts, and its
    constraints of the items."""
    if schema.get("unevaluatedItems", True) is True:
        return []
    others = lowering.lower(schema["unevaluatedItems"], place / "unevaluatedItems")
    return [
        (asserted(lowering, way), _of_way(lowering, way.evaluated, others, place.path))
        for way in ways_of_items(lowering.document, schema, place)
    ]


def _of_way(lowering: Lowering, evaluated: Evaluated, others: Core, path: str) -> Arrays:
    if evaluated.is_all:
        return NO_ARRAYS
    contained = [
        lowering.lower(asserted.schema, asserted.place) for asserted in evaluated.contained
    ]
    return Arrays(prefix=(True,) * evaluated.num_items, rest=any_of(path, [others, *contained]))


def _spelt_out(constraints: Arrays, path: str, *, tells_apart: bool) -> Core | None:
    """An enumeration of all arrays of distinct items, if each item of `prefix` has few values. None
    for too many arrays, or for further items that no guard compares."""
    placed = len(constraints.prefix)
    most = placed if constraints.max_items is None else min(constraints.max_items, placed)
    goes_on = constraints.rest is not False and (
        constraints.max_items is None or constraints.max_items > placed
    )
    if goes_on and not (placed and tells_apart):
        return None
    choices = [_values_of(item) for item in constraints.prefix[:most]]
    if prod(map(len, choices)) > _MAX_SPELT_OUT or not all(choices):
        return None
    options: list[Core] = [typed(path, *_NO_ARRAY)]
    for num_items in range(constraints.min_items or 0, most + 1):
        options += [arrays(path, chosen) for chosen in _chosen(choices[:num_items], path)]
    if goes_on:
        least = max(constraints.min_items or 0, placed + 1)
        longer = replace(constraints, min_items=least, is_distinct=True)
        options += [
            arrays(path, replace(longer, prefix=chosen.prefix)) for chosen in _chosen(choices, path)
        ]
    return any_of(path, options)


def _chosen(choices: list[tuple[Json, ...]], path: str) -> Iterator[Arrays]:
    """Arrays that take one value from each choice, no two of them equal."""
    num_items = len(choices)
    for chosen in product(*choices):
        spend(4 + 4 * num_items)
        if len(set(map(value_key, chosen))) == num_items:
            yield Arrays(
                num_items, num_items, tuple(Node(path, values=(value,)) for value in chosen)
            )


def _values_of(item: Core) -> tuple[Json, ...]:
    """The values of an item; () where they are not enumerated."""
    if isinstance(item, Node) and item == typed(item.path, "boolean"):
        return (True, False)
    return listed(item)


def _distinct(
    lowering: Lowering, schema: Mapping[str, Json], constraints: Arrays, place: Place
) -> Iterator[Core]:
    """The arrays of distinct items, each in the order of the items' enum."""
    path, values = place.path, _few_values(lowering, schema, constraints, place)
    most = len(values) if constraints.max_items is None else min(constraints.max_items, len(values))
    for num_items in range(constraints.min_items or 0, most + 1):
        for chosen in combinations(values, num_items):
            spend(4 + 4 * num_items)
            prefix = tuple(Node(path, values=(value,)) for value in chosen)
            yield arrays(path, Arrays(num_items, num_items, prefix))
    yield typed(path, *_NO_ARRAY)


def _few_values(
    lowering: Lowering, schema: Mapping[str, Json], arrays: Arrays, place: Place
) -> list[Json]:
    """The values that an item may have. Raises UnsupportedGuide where they are not enumerated, or
    are too many."""
    values = () if arrays.prefix else listed(_referred_item(lowering, schema, arrays.rest, place))
    if not values:
        raise refuse(
            "uniqueItems",
            place.path,
            "a grammar cannot compare an array's items; bound it by maxItems: 1, "
            "list them in an enum, or leave uniqueItems out",
        )
    distinct: dict[Hashable, Json] = {}
    for value in values:
        distinct.setdefault(value_key(value), value)
    if len(distinct) > _MAX_DISTINCT:
        raise refuse(
            "uniqueItems",
            place.path,
            f"its items have more than {_MAX_DISTINCT} values to choose from; list fewer in the "
            "enum, or leave uniqueItems out",
        )
    return list(distinct.values())


def _referred_item(
    lowering: Lowering, schema: Mapping[str, Json], items: Core, place: Place
) -> Core:
    """The item's subschema: an enum behind references is followed, other targets become True."""
    source, there = schema.get("items"), place / "items"
    followed = set[str]()
    while isinstance(source, Mapping) and source.keys() == {"$ref"}:
        if there.path in followed:
            raise cycle(there.path)
        followed.add(there.path)
        source, there = lowering.document.resolve(source["$ref"], there)
        is_listed = isinstance(source, Mapping) and "enum" in source
        items = lowering.lower(source, there) if is_listed else True
    return items


def _holds_one_item(arrays: Arrays) -> bool:
    closed_after = len(arrays.prefix) if arrays.rest is False else 2
    return min(2 if arrays.max_items is None else arrays.max_items, closed_after) <= 1


def _contains(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Core:
    """Arrays whose first items include the right number of instances of `contains`."""
    asked, _ = lowering.document.num_contained(schema)  # drafts without these ask for less
    least, most = max(asked, int(schema.get("minContains", asked))), schema.get("maxContains")
    if least > _MAX_CONTAINS:
        why = f"{least} is more than {_MAX_CONTAINS}, the most there may be; lower it"
        raise refuse("minContains", place.path, why)
    if most is not None and most < least:
        return typed(place.path, *_NO_ARRAY)
    item = lowering.lower(schema["contains"], place / "contains")
    others: Core = True
    if most is not None:
        (others,) = lowering.instead_of("maxContains", place)
    options = _places_of(least, least if most is None else int(most))
    spend(sum(map(len, options)) * weight(item))
    return any_of(
        place.path,
        (
            _with_items(place.path, [item if fits else others for fits in option], others)
            for option in options
        ),
    )


def _with_items(path: str, prefix: list[Core], rest: Core) -> Core:
    return Node(path, Kinds(arrays=Arrays(len(prefix) or None, None, tuple(prefix), rest)))


def _places_of(least: int, most: int) -> list[tuple[bool, ...]]:
    """Ways to place `least` to `most` matching items: for each of an array's first items, whether
    it matches. The shortest ways, up to _MAX_PLACES."""
    ways: list[tuple[bool, ...]] = []
    for num_items in range(least, least + _MAX_PLACED):
        for count in range(least, min(most, num_items) + 1):
            for places in combinations(range(num_items), count):
                is_whole = num_items == count == 0 or num_items - 1 in places
                if is_whole and len(ways) < _MAX_PLACES:
                    ways.append(tuple(i in places for i in range(num_items)))
    return ways
