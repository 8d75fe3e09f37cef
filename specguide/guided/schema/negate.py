"""Owns the negation of a subschema, keyword by keyword: the forms of what fails it.

A subschema is a conjunction of keywords, so an instance fails it by failing any one of them.
Keywords whose failure the core cannot express (`format`, `multipleOf`, `uniqueItems` …) are left
out of that choice, which keeps the result on the safe side; a subschema with no other keyword is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Protocol, TypeAlias

from specguide.guided.schema.disjoint import Comparison
from specguide.guided.schema.document import Document, Place
from specguide.guided.schema.forms import (
    Every,
    Failure,
    Form,
    Given,
    OnlyItems,
    OnlyMatching,
    OnlyNames,
    OnlyUnnamed,
    OtherStrings,
    Way,
    WithItem,
    WithProperty,
)
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, Number, named_types
from specguide.guided.schema.negate_values import other_values
from specguide.guided.schema.nodes import (
    Arrays,
    Node,
    Numbers,
    Objects,
    Strings,
    arrays,
    numbers,
    objects,
    refuse,
    strings,
    typed,
)

_MAX_PAIRED = 8
_ASSERTIONS_ONLY = frozenset(
    {
        "format",
        "multipleOf",
        "uniqueItems",
        "additionalItems",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$recursiveRef",
    }
)


class Negation(Protocol):
    """The negation of parts of one document."""

    document: Document
    comparison: Comparison

    def failure(self, schema: Json, place: Place) -> Form:
        """What fails a subschema."""
        ...

    def failed_reference(self, reference: str, place: Place) -> Form:
        """What fails the subschema that a `$ref` at `place` points to."""
        ...

    def given(self, schema: Json, place: Place) -> Given:
        """What fits a subschema."""
        ...


Rule: TypeAlias = Callable[[Negation, Mapping[str, Json], Place], Iterator[Form]]
"""The ways to fail one keyword of a subschema at a place."""


def fail(negation: Negation, schema: JsonSchema, place: Place) -> Form:
    """What fails a subschema of the right shape."""
    if isinstance(schema, bool):
        return not schema
    draft = negation.document.draft
    if draft <= 7 and "$ref" in schema:
        schema = {"$ref": schema["$ref"]}
    ways = tuple(
        Way(keyword, tuple(rule(negation, schema, place)))
        for keyword, rule in _RULES.items()
        if keyword in schema and draft in _DRAFTS.get(keyword, _ALL_DRAFTS)
    )
    unspoken = tuple(
        refuse(keyword, place.path, "its negation has no grammar")
        for keyword in sorted(_ASSERTIONS_ONLY & schema.keys())
    )
    return Failure(place.path, ways, unspoken)


def _type(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    named = named_types(schema) or ()
    others = [
        name
        for name in TYPES
        if name not in named and not (name == "number" and "integer" in named)
    ]
    yield typed(place.path, *others) if others else False
    if "integer" in named and "number" not in named:
        yield numbers(place.path, Numbers(is_fraction=True))


def _values(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    keyword = "const" if "const" in schema else "enum"
    values = [schema["const"]] if "const" in schema else schema["enum"]
    yield from other_values(values, place.path, keyword)


_BEYOND: dict[str, Callable[[Number], Numbers]] = {
    "minimum": lambda bound: Numbers(exclusive_maximum=bound),
    "maximum": lambda bound: Numbers(exclusive_minimum=bound),
    "exclusiveMinimum": lambda bound: Numbers(maximum=bound),
    "exclusiveMaximum": lambda bound: Numbers(minimum=bound),
}
"""Keyword → the numbers beyond its bound."""


def _numeric(keyword: str) -> Rule:
    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        if not isinstance(schema[keyword], bool):
            yield numbers(place.path, _BEYOND[keyword](schema[keyword]))

    return rule


_TOO_FEW: dict[str, Callable[[str, int], Node]] = {
    "minLength": lambda path, count: strings(path, Strings(max_length=count - 1)),
    "minItems": lambda path, count: arrays(path, Arrays(max_items=count - 1)),
    "minProperties": lambda path, count: objects(path, Objects(max_properties=count - 1)),
}
_TOO_MANY: dict[str, Callable[[str, int], Node]] = {
    "maxLength": lambda path, count: strings(path, Strings(min_length=count + 1)),
    "maxItems": lambda path, count: arrays(path, Arrays(min_items=count + 1)),
    "maxProperties": lambda path, count: objects(path, Objects(min_properties=count + 1)),
}
"""Keyword → what is beyond its count, at a path."""


def _sized(keyword: str) -> Rule:
    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        count = int(schema[keyword])
        if keyword in _TOO_MANY:
            yield _TOO_MANY[keyword](place.path, count)
        elif count > 0:
            yield _TOO_FEW[keyword](place.path, count)

    return rule


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
    """Objects of failing properties only."""
    for pattern, child in schema["patternProperties"].items():
        failed = negation.failure(child, place / "patternProperties" / pattern)
        yield OnlyMatching(place.path, pattern, failed)


def _additional(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Objects of failing properties that are named nowhere."""
    if "patternProperties" not in schema:
        failed = negation.failure(schema["additionalProperties"], place / "additionalProperties")
        yield OnlyUnnamed(place.path, tuple(schema.get("properties", {})), failed)


def _pattern(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    yield OtherStrings(place.path, schema["pattern"])


def _property_names(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Objects of forbidden names only."""
    failed = negation.failure(schema["propertyNames"], place / "propertyNames")
    yield OnlyNames(place, failed)


def _dependencies(keyword: str) -> Rule:
    """Objects that have the property and fail what it asks for."""

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        for name, asked in schema[keyword].items():
            here = place / keyword / name
            has_name = Objects(required=(name,))
            if not isinstance(asked, list):
                failed = negation.failure(asked, here)
                yield Every(here.path, (objects(here.path, has_name), failed))
                continue
            for other in asked:
                if other != name:
                    yield objects(here.path, replace(has_name, properties={other: False}))

    return rule


def _if(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """What meets the condition and fails `then`, or fails the condition and `else`."""
    if "then" in schema:
        met = negation.given(schema["if"], place / "if")
        yield Every(place.path, (met, negation.failure(schema["then"], place / "then")))
    if "else" in schema:
        unmet = negation.failure(schema["if"], place / "if")
        yield Every(place.path, (unmet, negation.failure(schema["else"], place / "else")))


def _prefix(keyword: str) -> Rule:
    """Arrays whose item at one of the places fails what is asked there."""

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
    if schema.get("minContains", 1) >= 1:
        yield OnlyItems(place.path, negation.failure(schema["contains"], place / "contains"))


def _all_of(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    for i, child in enumerate(schema["allOf"]):
        yield negation.failure(child, place / "allOf" / i)


def _none_of(keyword: str) -> Rule:
    """What fits none of them."""

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        children = enumerate(schema[keyword])
        failed = (negation.failure(child, place / keyword / i) for i, child in children)
        yield Every(place.path, tuple(failed))

    return rule


def _one_of(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """What fits none of them, or two of them."""
    yield from _none_of("oneOf")(negation, schema, place)
    branches = [(child, place / "oneOf" / i) for i, child in enumerate(schema["oneOf"])]
    if len(branches) > _MAX_PAIRED:
        return
    for left, right in combinations(branches, 2):
        if not negation.comparison.are_disjoint(left, right):
            yield Every(place.path, (negation.given(*left), negation.given(*right)))


def _not(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    yield negation.given(schema["not"], place / "not")


def _ref(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    yield negation.failed_reference(schema["$ref"], place)


_RULES: dict[str, Rule] = {
    "type": _type,
    "const": _values,
    "enum": _values,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "items": _items,
    "prefixItems": _prefix("prefixItems"),
    "contains": _contains,
    "pattern": _pattern,
    "propertyNames": _property_names,
    "if": _if,
    **{
        name: _dependencies(name)
        for name in ("dependencies", "dependentRequired", "dependentSchemas")
    },
    "allOf": _all_of,
    "anyOf": _none_of("anyOf"),
    "oneOf": _one_of,
    "not": _not,
    "$ref": _ref,
    **{name: _numeric(name) for name in _BEYOND},
    **{name: _sized(name) for name in (*_TOO_FEW, *_TOO_MANY)},
}
_ALL_DRAFTS = range(4, 2021)
_DRAFTS = {
    "const": range(6, 2021),
    "contains": range(6, 2021),
    "propertyNames": range(6, 2021),
    "if": range(7, 2021),
    "dependencies": range(4, 8),
    "dependentRequired": range(2019, 2021),
    "dependentSchemas": range(2019, 2021),
    "prefixItems": range(2020, 2021),
}
"""In which drafts a keyword says something: elsewhere it cannot be failed."""
