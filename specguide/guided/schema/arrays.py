"""Owns the rewriting of what JSON Schema says of arrays into the core."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from math import prod

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.document import Place
from specguide.guided.schema.json_values import TYPES, Json, value_key
from specguide.guided.schema.keywords import weight
from specguide.guided.schema.lowering import Lowering
from specguide.guided.schema.nodes import (
    Arrays,
    Core,
    Kinds,
    Node,
    any_of,
    arrays,
    listed,
    refuse,
    typed,
)

_MAX_CONTAINS = 64
_MAX_DISTINCT = 8
_MAX_SPELT_OUT = 64
_NO_ARRAY = tuple(name for name in TYPES if name != "array")
_DECIDES_ITEMS = frozenset({"$ref", "allOf", "anyOf", "contains", "if", "oneOf"})


def lower_array(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """The core of a subschema's array keywords. `contains` is met by the array's first items."""
    prefix, rest = _items(lowering, schema, place)
    least, most = (_count(schema, keyword) for keyword in ("minItems", "maxItems"))
    asked = Arrays(least, most, prefix, rest)
    if schema.get("uniqueItems") and not _holds_one_item(asked):
        spelt_out = _spelt_out(asked, place.path)
        if spelt_out is not None:
            yield spelt_out
        elif lowering.capabilities.tells_items_apart:
            asked = replace(asked, is_distinct=True)
        else:
            with at_work("uniqueItems", place.path):
                yield any_of(place.path, _distinct(lowering, schema, asked, place))
    yield Node(place.path, Kinds(arrays=asked))
    if "contains" in schema:
        yield Node(place.path, all_of=(_contains(lowering, schema, place),))


def _count(schema: Mapping[str, Json], keyword: str) -> int | None:
    return int(schema[keyword]) if keyword in schema else None


def _items(
    lowering: Lowering, schema: Mapping[str, Json], place: Place
) -> tuple[tuple[Core, ...], Core]:
    """What the first items and what the others must be."""
    items = schema.get("items", True)
    if isinstance(items, list):  # up to 2019-09; later drafts have no other reading of it
        prefix, rest, keyword = items, schema.get("additionalItems", True), "additionalItems"
        step = "items"
    else:
        prefix = schema.get("prefixItems", []) if lowering.document.draft >= 2020 else []
        rest, keyword, step = items, "items", "prefixItems"
    if keyword not in schema and "unevaluatedItems" in schema:
        beside = sorted(schema.keys() & _DECIDES_ITEMS)
        if beside:
            raise refuse(
                "unevaluatedItems", place.path, f"which items it speaks of hangs on {beside[0]}"
            )
        rest, keyword = schema["unevaluatedItems"], "unevaluatedItems"
    lowered = [lowering.lower(child, place / step / i) for i, child in enumerate(prefix)]
    return tuple(lowered), lowering.lower(rest, place / keyword)


def _spelt_out(asked: Arrays, path: str) -> Core | None:
    """All arrays of distinct items, where each item is one of few values told by its place; None
    where they are not so few."""
    placed = len(asked.prefix)
    most = placed if asked.max_items is None else min(asked.max_items, placed)
    if asked.rest is not False and (asked.max_items is None or asked.max_items > placed):
        return None
    choices = [_values_of(item) for item in asked.prefix[:most]]
    if prod(map(len, choices)) > _MAX_SPELT_OUT or not all(choices):
        return None
    options: list[Core] = [typed(path, *_NO_ARRAY)]
    for num_items in range(asked.min_items or 0, most + 1):
        for chosen in product(*choices[:num_items]):
            spend(4 + 4 * num_items)
            if len(set(map(value_key, chosen))) == num_items:
                prefix = tuple(Node(path, values=(value,)) for value in chosen)
                options.append(arrays(path, Arrays(num_items, num_items, prefix)))
    return any_of(path, options)


def _values_of(item: Core) -> tuple[Json, ...]:
    """The values of an item; none where they are not listed."""
    if isinstance(item, Node) and item == typed(item.path, "boolean"):
        return (True, False)
    return listed(item)


def _distinct(
    lowering: Lowering, schema: Mapping[str, Json], asked: Arrays, place: Place
) -> Iterator[Core]:
    """The arrays of distinct items, which come in the order in which an enum lists them."""
    path, values = place.path, _few_values(lowering, schema, asked, place)
    most = len(values) if asked.max_items is None else min(asked.max_items, len(values))
    for num_items in range(asked.min_items or 0, most + 1):
        for chosen in combinations(values, num_items):
            spend(4 + 4 * num_items)
            prefix = tuple(Node(path, values=(value,)) for value in chosen)
            yield arrays(path, Arrays(num_items, num_items, prefix))
    yield typed(path, *_NO_ARRAY)


def _few_values(
    lowering: Lowering, schema: Mapping[str, Json], asked: Arrays, place: Place
) -> list[Json]:
    """The values that an item may have. Raises UnsupportedGuide where they are not listed, or too
    many."""
    values = () if asked.prefix else listed(_referred_item(lowering, schema, asked.rest, place))
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
            f"more than {_MAX_DISTINCT} items to choose from are too many choices",
        )
    return list(distinct.values())


def _referred_item(
    lowering: Lowering, schema: Mapping[str, Json], items: Core, place: Place
) -> Core:
    """What an item must be, where that is behind references alone an enum, or nothing else."""
    source, there = schema.get("items"), place / "items"
    while isinstance(source, Mapping) and source.keys() == {"$ref"}:
        source, there = lowering.document.resolve(source["$ref"], there)
        is_listed = isinstance(source, Mapping) and "enum" in source
        items = lowering.lower(source, there) if is_listed else True
    return items


def _holds_one_item(asked: Arrays) -> bool:
    closed_after = len(asked.prefix) if asked.rest is False else 2
    return min(2 if asked.max_items is None else asked.max_items, closed_after) <= 1


def _contains(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Core:
    least, most = int(schema.get("minContains", 1)), schema.get("maxContains")
    if least > _MAX_CONTAINS:
        raise refuse("minContains", place.path, f"it is above {_MAX_CONTAINS}")
    if most is not None and most < least:
        return typed(place.path, *_NO_ARRAY)
    item = lowering.lower(schema["contains"], place / "contains")
    spend(least * weight(item))
    asked = Arrays(min_items=least or None, prefix=(item,) * least)
    if most is not None:
        (failed,) = lowering.instead_of("maxContains", place)
        asked = replace(asked, rest=failed)
    return Node(place.path, Kinds(arrays=asked))
