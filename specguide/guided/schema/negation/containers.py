"""Owns the negation of the keywords with subschemas of items and properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from specguide.guided.schema.core.nodes import Objects, objects
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.negation.forms import (
    Every,
    Form,
    OnlyItems,
    OnlyMatching,
    OnlyNames,
    OnlyUnnamed,
    WithItem,
    WithProperty,
    WithUnnamed,
)
from specguide.guided.schema.negation.negation import Negation, Rule
from specguide.guided.schema.topics import DEPENDENCIES


def _required(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    for name in schema["required"]:
        yield objects(place.path, Objects({name: False}))


def _properties(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    for name, child in schema["properties"].items():
        failed = negation.failure(child, place / "properties" / name)
        yield WithProperty(place.path, name, failed)


def _pattern_properties(
    negation: Negation, schema: Mapping[str, Json], place: Place
) -> Iterator[Form]:
    """Objects with failing properties only."""
    for pattern, child in schema["patternProperties"].items():
        failed = negation.failure(child, place / "patternProperties" / pattern)
        yield OnlyMatching(place.path, pattern, failed)


def _additional(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Objects whose properties all are unnamed and fail, or that have one such property."""
    failed = negation.failure(schema["additionalProperties"], place / "additionalProperties")
    names = tuple(schema.get("properties", {}))
    patterns = tuple(schema.get("patternProperties", {}))
    yield OnlyUnnamed(place.path, names, patterns, failed)
    yield WithUnnamed(place.path, names, patterns, failed)


def _property_names(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Objects with forbidden names only."""
    failed = negation.failure(schema["propertyNames"], place / "propertyNames")
    yield OnlyNames(place, failed)


def _dependencies(keyword: str) -> Rule:
    """Objects that have the property and fail what depends on it."""

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        for name, dependent in schema[keyword].items():
            here = place / keyword / name
            has_name = Objects(required=(name,))
            if not isinstance(dependent, list):
                failed = negation.failure(dependent, here)
                yield Every(here.path, (objects(here.path, has_name), failed))
                continue
            for other in dependent:
                if other != name:
                    yield objects(here.path, replace(has_name, properties={other: False}))

    return rule


def _prefix(keyword: str) -> Rule:
    """Arrays with an item that fails the subschema of its position."""

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        for i, child in enumerate(schema[keyword]):
            yield WithItem(place.path, i, negation.failure(child, place / keyword / i))

    return rule


def _items(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    if isinstance(schema["items"], list) and negation.document.draft < 2020:
        yield from _prefix("items")(negation, schema, place)
    elif not isinstance(schema["items"], list) and "prefixItems" not in schema:
        yield WithItem(place.path, 0, negation.failure(schema["items"], place / "items"))


def _contains(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    least, _ = negation.document.num_contained(schema)
    if least >= 1:
        yield OnlyItems(place.path, negation.failure(schema["contains"], place / "contains"))


CONTAINER_RULES: dict[str, Rule] = {
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    **{keyword: _dependencies(keyword) for keyword in DEPENDENCIES},
    "items": _items,
    "prefixItems": _prefix("prefixItems"),
    "contains": _contains,
}
