"""Owns the negation of JSON Schemas: core schemas whose instances are no instances of a given
subschema.

A subschema is a conjunction of keywords, so an instance fails it by failing any one of them.
Keywords whose failure the core cannot express (`format`, `multipleOf`, `uniqueItems` …) are left
out of that choice, which keeps the result on the safe side; a subschema with no other keyword is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_work
from specguide.guided.regex.automaton import everything_but
from specguide.guided.regex.parse import MAX_CHARS, UnsupportedRegex
from specguide.guided.schema.document import Place
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, Number, named_types
from specguide.guided.schema.lowering import Lowering, Rule
from specguide.guided.schema.negate_values import failing_item, values_beside
from specguide.guided.schema.nodes import (
    ANYTHING,
    Arrays,
    Core,
    Kinds,
    Node,
    Numbers,
    Objects,
    Strings,
    all_of,
    any_of,
    arrays,
    numbers,
    objects,
    refuse,
    strings,
    typed,
)
from specguide.guided.schema.pattern_text import read_pattern, write_pattern

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


def negate(lowering: Lowering, schema: JsonSchema, place: Place) -> Core:
    """Core schema of what is no instance of `schema`, or some of it. Raises UnsupportedGuide where
    there is none."""
    if isinstance(schema, bool):
        return not schema
    if lowering.document.draft <= 7 and "$ref" in schema:
        schema = {"$ref": schema["$ref"]}
    options: list[Core] = []
    dropped = [
        refuse(keyword, place.path, "its negation has no grammar")
        for keyword in sorted(_ASSERTIONS_ONLY & schema.keys())
    ]
    for keyword, rule in _RULES.items():
        if keyword in schema and lowering.document.draft in _DRAFTS.get(keyword, _ALL_DRAFTS):
            try:
                with at_work(keyword, place.path):
                    options += rule(lowering, schema, place)
            except UnsupportedGuide as error:
                dropped.append(error)
    if dropped and not any(map(_says_more_than_types, options)):
        raise dropped[0]
    return any_of(place.path, options)


def _says_more_than_types(option: Core) -> bool:
    if isinstance(option, bool):
        return option
    return option != Node(option.path, Kinds(types=option.kinds.types)) or option.kinds == ANYTHING


def _type(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    named = named_types(schema) or ()
    others = [
        name
        for name in TYPES
        if name not in named and not (name == "number" and "integer" in named)
    ]
    yield typed(place.path, *others) if others else False
    if "integer" in named and "number" not in named:
        yield numbers(place.path, Numbers(is_fraction=True))


def _values(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    keyword = "const" if "const" in schema else "enum"
    values = [schema["const"]] if "const" in schema else schema["enum"]
    yield from values_beside(values, place.path, lowering.capabilities.characters, keyword)


_BEYOND: dict[str, Callable[[Number], Numbers]] = {
    "minimum": lambda bound: Numbers(exclusive_maximum=bound),
    "maximum": lambda bound: Numbers(exclusive_minimum=bound),
    "exclusiveMinimum": lambda bound: Numbers(maximum=bound),
    "exclusiveMaximum": lambda bound: Numbers(minimum=bound),
}
"""Keyword → the numbers beyond its bound."""


def _numeric(keyword: str) -> Rule:
    def rule(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
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
    def rule(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        count = int(schema[keyword])
        if keyword in _TOO_MANY:
            yield _TOO_MANY[keyword](place.path, count)
        elif count > 0:
            yield _TOO_FEW[keyword](place.path, count)

    return rule


def _required(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    for name in schema["required"]:
        yield objects(place.path, Objects({name: False}))


def _properties(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    for name, child in schema["properties"].items():
        failed = lowering.negate(child, place / "properties" / name)
        if failed is not False:
            yield objects(place.path, Objects({name: failed}, required=(name,)))


def _pattern_properties(
    lowering: Lowering, schema: Mapping[str, Json], place: Place
) -> Iterator[Core]:
    """An object of failing properties only, at least one of them."""
    for pattern, child in schema["patternProperties"].items():
        failed = lowering.negate(child, place / "patternProperties" / pattern)
        if failed is not False:
            node = read_pattern(pattern, "patternProperties", place.path)
            text = write_pattern(node, lowering.capabilities.characters)
            if text is not None:
                only = Objects(patterns={text: failed}, additional=False, min_properties=1)
                yield objects(place.path, only)


def _additional(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """An object of failing properties that are named nowhere, at least one of them."""
    failed = lowering.negate(schema["additionalProperties"], place / "additionalProperties")
    named = {name: False for name in schema.get("properties", {})}
    if failed is not False and "patternProperties" not in schema:
        yield objects(place.path, Objects(named, additional=failed, min_properties=1))


def _pattern(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    node = read_pattern(schema["pattern"], "pattern", place.path)
    try:
        pattern = write_pattern(everything_but(node), lowering.capabilities.characters)
    except UnsupportedRegex as error:
        raise refuse("pattern", place.path, str(error)) from error
    if pattern is not None and len(pattern) > MAX_CHARS:
        raise refuse("pattern", place.path, "what it does not match is too long to write down")
    if pattern is not None:
        yield strings(place.path, Strings(pattern=pattern))


def _property_names(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """An object of forbidden names only, at least one of them."""
    yield lowering.lower(
        {"type": "object", "propertyNames": {"not": schema["propertyNames"]}, "minProperties": 1},
        place,
    )


def _dependencies(keyword: str) -> Rule:
    """An object that has the property and fails what it asks for."""

    def rule(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        for name, asked in schema[keyword].items():
            here = place / keyword / name
            has_name = Objects(required=(name,))
            if isinstance(asked, list):
                yield from (
                    objects(here.path, replace(has_name, properties={other: False}))
                    for other in asked
                    if other != name
                )
            else:
                failed = lowering.negate(asked, here)
                yield all_of(here.path, [objects(here.path, has_name), failed])

    return rule


def _if(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """What meets the condition and fails `then`, or fails the condition and `else`."""
    condition = schema["if"], place / "if"
    if "then" in schema:
        yield all_of(
            place.path,
            [lowering.lower(*condition), lowering.negate(schema["then"], place / "then")],
        )
    if "else" in schema:
        yield all_of(
            place.path,
            [lowering.negate(*condition), lowering.negate(schema["else"], place / "else")],
        )


def _prefix(keyword: str) -> Rule:
    """An array whose item at one of the places fails what is asked there."""

    def rule(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        for i, child in enumerate(schema[keyword]):
            failed = lowering.negate(child, place / keyword / i)
            yield from failing_item(i, failed, place.path)

    return rule


def _items(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    if isinstance(schema["items"], list) and lowering.document.draft < 2020:
        yield from _prefix("items")(lowering, schema, place)
    elif not isinstance(schema["items"], list) and "prefixItems" not in schema:
        failed = lowering.negate(schema["items"], place / "items")
        yield from failing_item(0, failed, place.path)


def _contains(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    if schema.get("minContains", 1) >= 1:
        failed = lowering.negate(schema["contains"], place / "contains")
        yield arrays(place.path, Arrays(rest=failed))


def _all_of(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    for i, child in enumerate(schema["allOf"]):
        yield lowering.negate(child, place / "allOf" / i)


def _none_of(keyword: str) -> Rule:
    """What fits none of them."""

    def rule(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        children = enumerate(schema[keyword])
        failed = [lowering.negate(child, place / keyword / i) for i, child in children]
        yield all_of(place.path, failed)

    return rule


def _one_of(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """What fits none of them, or two of them."""
    yield from _none_of("oneOf")(lowering, schema, place)
    branches = [(child, place / "oneOf" / i) for i, child in enumerate(schema["oneOf"])]
    if len(branches) <= _MAX_PAIRED:
        yield from (
            all_of(place.path, [lowering.lower(*left), lowering.lower(*right)])
            for left, right in combinations(branches, 2)
            if not lowering.comparison.are_disjoint(left, right)
        )


def _not(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    yield lowering.lower(schema["not"], place / "not")


def _ref(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    yield lowering.negated_reference(schema["$ref"], place)


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
