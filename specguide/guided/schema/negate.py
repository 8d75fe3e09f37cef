"""Owns the negation of JSON Schemas: core schemas whose instances are no instances of a given
subschema.

A subschema is a conjunction of keywords, so an instance fails it by failing any one of them.
Keywords whose failure the core cannot express (`format`, `multipleOf`, `uniqueItems` …) are left
out of that choice, which keeps the result on the safe side; a subschema with no other keyword is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_work, kept, spend
from specguide.guided.regex.automaton import everything_but
from specguide.guided.regex.charset import EVERYTHING, CharSet, exactly
from specguide.guided.regex.parse import (
    MAX_CHARS,
    Chars,
    Concat,
    Either,
    Node,
    Repeat,
    UnsupportedRegex,
    literal,
)
from specguide.guided.schema.core import (
    NO_INTEGER,
    Core,
    CoreSchema,
    Target,
    all_of,
    any_of,
    read_pattern,
    refuse,
    write_pattern,
)
from specguide.guided.schema.disjoint import json_type
from specguide.guided.schema.document import TYPES, Place

if TYPE_CHECKING:
    from specguide.guided.schema.normalise import Lowering

_Rule = Callable[["Lowering", Mapping[str, Any], Place], Iterator[CoreSchema]]

_BLOCK = 32
"""So many characters at the start of a string are written once for all that begin with them."""
_MAX_BESIDE = 2_000_000
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


def negate(lowering: Lowering, schema: Mapping[str, Any] | bool, place: Place) -> CoreSchema:
    """Core schema of what is no instance of `schema`, or some of it. Raises UnsupportedGuide where
    there is none."""
    if isinstance(schema, bool):
        return not schema
    if lowering.document.draft <= 7 and "$ref" in schema:
        schema = {"$ref": schema["$ref"]}
    options: list[CoreSchema] = []
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
    if dropped and not any(
        option is True or (option is not False and option.keys() != {"type"}) for option in options
    ):
        raise dropped[0]
    return any_of(place.path, options)


def _type(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    others = [
        name
        for name in TYPES
        if name not in named and not (name == "number" and "integer" in named)
    ]
    yield Core(place.path, type=others) if others else False
    if "integer" in named and "number" not in named:
        yield Core(place.path, {"type": "number", "not": NO_INTEGER})


def _values(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    values = [schema["const"]] if "const" in schema else schema["enum"]
    spend(8 + 4 * len(values))
    found: dict[str, list[Any]] = {
        name: [value for value in values if json_type(value) == name] for name in TYPES
    }
    others = [name for name, of_type in found.items() if not of_type]
    yield Core(place.path, type=others) if others else False
    if found["boolean"]:
        left = [value for value in (True, False) if value not in found["boolean"]]
        yield Core(place.path, enum=left) if left else False
    if found["number"]:
        yield from _numbers_beside(sorted(found["number"]), place)
    if found["string"]:
        try:
            pattern = _pattern_beside(frozenset(found["string"]), lowering.target)
        except UnsupportedRegex as error:
            raise refuse(
                "const" if "const" in schema else "enum", place.path, str(error)
            ) from error
        yield Core(place.path, type="string", pattern=pattern)
    for name in ("array", "object"):
        if found[name]:
            yield all_of(
                place.path,
                [
                    any_of(place.path, _containers_beside(lowering, value, place))
                    for value in found[name]
                ],
            )


def _containers_beside(lowering: Lowering, value: Any, place: Place) -> Iterator[CoreSchema]:
    """Arrays or objects that lack a part of `value` or have another one in its place; of more,
    longer arrays only."""
    if isinstance(value, list):
        if value:
            yield Core(place.path, type="array", maxItems=len(value) - 1)
        yield Core(place.path, type="array", minItems=len(value) + 1)
        for i, item in enumerate(value):
            yield from _failing_item(
                i, any_of(place.path, _values(lowering, {"const": item}, place)), place
            )
        return
    if not value:
        yield Core(place.path, type="object", minProperties=1)
    for name, item in value.items():
        yield Core(place.path, type="object", properties={name: False})
        yield Core(
            place.path,
            type="object",
            required=[name],
            properties={name: any_of(place.path, _values(lowering, {"const": item}, place))},
        )


def _failing_item(i: int, failed: CoreSchema, place: Place) -> Iterator[CoreSchema]:
    if failed is not False:
        yield Core(place.path, type="array", minItems=i + 1, prefixItems=[*[True] * i, failed])


def _numbers_beside(values: list[float], place: Place) -> Iterator[Core]:
    for low, high in zip([None, *values], [*values, None], strict=True):
        if low is None or high is None or low < high:
            bounds = {"exclusiveMinimum": low, "exclusiveMaximum": high}
            yield Core(
                place.path,
                type="number",
                **{key: value for key, value in bounds.items() if value is not None},
            )


@kept
def _pattern_beside(words: frozenset[str], target: Target) -> str:
    """The pattern of every string but the words. Raises UnsupportedRegex where it is too long."""
    pattern = (
        None
        if sum(len(word) ** 2 for word in words) > _MAX_BESIDE
        else write_pattern(_strings_beside(words), target)
    )
    if pattern is None or len(pattern) > MAX_CHARS:
        raise UnsupportedRegex("a pattern of all strings but these is too long to write down")
    return pattern


def _strings_beside(words: frozenset[str]) -> Node:
    """Every string but the words: a beginning of words that is none, or one with a character that
    leads to no word.

    The beginnings share their first characters by blocks, which keeps the tree as flat as it is
    short.
    """
    beginnings: dict[str, list[str]] = {"": []}  # each with the characters that may follow
    for word in sorted(words):
        spend(1 + 8 * len(word))
        for i, char in enumerate(word):
            follow = beginnings.setdefault(word[:i], [])
            if char not in follow[-1:]:
                follow.append(char)
        beginnings.setdefault(word, [])
    blocks: dict[str, dict[str, list[str]]] = {}  # by the characters that are shared
    for beginning, follow in beginnings.items():
        shared = beginning[: len(beginning) // _BLOCK * _BLOCK]
        blocks.setdefault(shared, {})[beginning] = follow
    nodes: dict[str, list[Node]] = {shared: [] for shared in blocks}
    for shared in sorted(blocks, key=len, reverse=True):
        node = Either((*_beside(blocks[shared], len(shared), words), *nodes[shared]))
        if shared:
            outer = shared[:-_BLOCK]
            nodes[outer].append(Concat((literal(shared[len(outer) :]), node)))
    return node


def _beside(
    beginnings: Mapping[str, list[str]], start: int, words: frozenset[str]
) -> Iterator[Node]:
    """The strings, from their character `start` on, that leave the words right behind one of the
    beginnings."""
    rests: dict[tuple[str, ...], list[Node]] = {}  # by what may follow
    for beginning, follow in beginnings.items():
        rests.setdefault(tuple(follow), []).append(literal(beginning[start:]))
    left = [
        Concat(
            (Either(tuple(found)), Chars(~exactly(*((ord(char), ord(char)) for char in follow))))
        )
        for follow, found in rests.items()
    ]
    yield Concat((Either(tuple(left)), Repeat(Chars(CharSet(EVERYTHING, EVERYTHING)), 0, None)))
    yield from (literal(beginning[start:]) for beginning in beginnings if beginning not in words)


def _numeric(name: str) -> Callable[[Lowering, Mapping[str, Any], Place], Iterator[CoreSchema]]:
    opposite = {
        "minimum": "exclusiveMaximum",
        "maximum": "exclusiveMinimum",
        "exclusiveMinimum": "maximum",
        "exclusiveMaximum": "minimum",
    }[name]

    def rule(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
        if not isinstance(schema[name], bool):
            yield Core(place.path, {"type": "number", opposite: schema[name]})

    return rule


def _sized(name: str) -> Callable[[Lowering, Mapping[str, Any], Place], Iterator[CoreSchema]]:
    kind = {"Length": "string", "Items": "array", "Properties": "object"}[name[3:]]
    opposite, offset = (f"max{name[3:]}", -1) if name.startswith("min") else (f"min{name[3:]}", 1)

    def rule(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
        value = int(schema[name]) + offset
        yield Core(place.path, {"type": kind, opposite: value}) if value >= 0 else False

    return rule


def _required(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    for name in schema["required"]:
        yield Core(place.path, type="object", properties={name: False})


def _properties(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    for name, child in schema["properties"].items():
        failed = lowering.negate(child, place / "properties" / name)
        if failed is not False:
            yield Core(place.path, type="object", required=[name], properties={name: failed})


def _pattern_properties(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """An object of failing properties only, at least one of them."""
    for pattern, child in schema["patternProperties"].items():
        failed = lowering.negate(child, place / "patternProperties" / pattern)
        if failed is not False:
            text = write_pattern(
                read_pattern(pattern, "patternProperties", place.path), lowering.target
            )
            if text is not None:
                yield Core(
                    place.path,
                    type="object",
                    patternProperties={text: failed},
                    additionalProperties=False,
                    minProperties=1,
                )


def _additional(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """An object of failing properties that are named nowhere, at least one of them."""
    failed = lowering.negate(schema["additionalProperties"], place / "additionalProperties")
    named = {name: False for name in schema.get("properties", {})}
    if failed is not False and "patternProperties" not in schema:
        yield Core(
            place.path,
            type="object",
            properties=named,
            additionalProperties=failed,
            minProperties=1,
        )


def _pattern(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    node = read_pattern(schema["pattern"], "pattern", place.path)
    try:
        pattern = write_pattern(everything_but(node), lowering.target)
    except UnsupportedRegex as error:
        raise refuse("pattern", place.path, str(error)) from error
    if pattern is not None and len(pattern) > MAX_CHARS:
        raise refuse("pattern", place.path, "what it does not match is too long to write down")
    if pattern is not None:
        yield Core(place.path, type="string", pattern=pattern)


def _property_names(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """An object of forbidden names only, at least one of them."""
    yield lowering.lower(
        {"type": "object", "propertyNames": {"not": schema["propertyNames"]}, "minProperties": 1},
        place,
    )


def _dependencies(keyword: str) -> _Rule:
    """An object that has the property and fails what it asks for."""

    def rule(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
        for name, asked in schema[keyword].items():
            here = place / keyword / name
            if isinstance(asked, list):
                yield from (
                    Core(here.path, type="object", required=[name], properties={other: False})
                    for other in asked
                    if other != name
                )
            else:
                yield all_of(
                    here.path,
                    [Core(here.path, type="object", required=[name]), lowering.negate(asked, here)],
                )

    return rule


def _if(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
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


def _prefix(keyword: str) -> _Rule:
    """An array whose item at one of the places fails what is asked there."""

    def rule(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
        for i, child in enumerate(schema[keyword]):
            yield from _failing_item(i, lowering.negate(child, place / keyword / i), place)

    return rule


def _items(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    if isinstance(schema["items"], list) and lowering.document.draft < 2020:
        yield from _prefix("items")(lowering, schema, place)
    elif not isinstance(schema["items"], list) and "prefixItems" not in schema:
        failed = lowering.negate(schema["items"], place / "items")
        yield failed and Core(place.path, type="array", minItems=1, prefixItems=[failed])


def _contains(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    if schema.get("minContains", 1) >= 1:
        yield Core(
            place.path, type="array", items=lowering.negate(schema["contains"], place / "contains")
        )


def _all_of(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    for i, child in enumerate(schema["allOf"]):
        yield lowering.negate(child, place / "allOf" / i)


def _none_of(keyword: str) -> Callable[[Lowering, Mapping[str, Any], Place], Iterator[CoreSchema]]:
    def rule(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
        yield all_of(
            place.path,
            [
                lowering.negate(child, place / keyword / i)
                for i, child in enumerate(schema[keyword])
            ],
        )

    return rule


def _one_of(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    """What fits none of them, or two of them."""
    yield from _none_of("oneOf")(lowering, schema, place)
    branches = [(child, place / "oneOf" / i) for i, child in enumerate(schema["oneOf"])]
    if len(branches) <= _MAX_PAIRED:
        yield from (
            all_of(place.path, [lowering.lower(*left), lowering.lower(*right)])
            for left, right in combinations(branches, 2)
            if not lowering.comparison.are_disjoint(left, right)
        )


def _not(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    yield lowering.lower(schema["not"], place / "not")


def _ref(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    yield lowering.negated_reference(schema["$ref"], place)


_RULES: dict[str, _Rule] = {
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
    **{
        name: _numeric(name)
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    },
    **{
        name: _sized(name)
        for name in (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
        )
    },
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
