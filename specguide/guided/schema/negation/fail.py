"""Owns the negation of a subschema, keyword by keyword: the forms of the values that fail it.

A subschema is a conjunction of keywords, so a value fails it by failing any of them. Keywords whose
failure the core cannot express (`uniqueItems`, some formats …) are left out of that choice, which
then allows less but nothing wrong. A subschema with no other keyword is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from specguide.errors import InvalidGuide
from specguide.guided.schema.core.nodes import Numbers, numbers, refuse, typed
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.formats import FORMATS, FORMATS_AT_MOST
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, exact, named_types
from specguide.guided.schema.negation.bounds import BOUND_RULES
from specguide.guided.schema.negation.containers import CONTAINER_RULES
from specguide.guided.schema.negation.forms import Every, Failure, Form, OtherStrings, Refused, Way
from specguide.guided.schema.negation.negation import Negation, Rule
from specguide.guided.schema.negation.values import other_values
from specguide.guided.schema.topics import DYNAMIC

_MAX_PAIRED = 8
_ASSERTIONS_ONLY = frozenset(
    {
        "uniqueItems",
        "additionalItems",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)

_UNSPOKEN_FORMATS = FORMATS.keys() - FORMATS_AT_MOST.keys()


def fail(negation: Negation, schema: JsonSchema, place: Place) -> Form:
    """Returns the form of the values that fail a subschema, which `Document.read` returned."""
    if isinstance(schema, bool):
        return not schema
    draft = negation.document.draft
    ways = tuple(
        Way(keyword, tuple(rule(negation, schema, place)))
        for keyword, rule in _RULES.items()
        if keyword in schema
        and draft in _DRAFTS.get(keyword, _ALL_DRAFTS)
        and not _is_unspoken(keyword, schema, negation)
    )
    unspoken = tuple(
        refuse(
            keyword,
            place.path,
            "no grammar can exclude what it allows; leave it out of the negation",
        )
        for keyword in sorted(schema)
        if _is_unspoken(keyword, schema, negation)
    )
    return Failure(place.path, ways, unspoken)


def _is_unspoken(keyword: str, schema: Mapping[str, Json], negation: Negation) -> bool:
    """Whether the core cannot express the values that fail the keyword."""
    if keyword == "format":
        return negation.document.asserted_format(schema) in _UNSPOKEN_FORMATS
    if keyword == "multipleOf":  # e.g. to be no multiple of 0.1 does not mean to be no integer
        return exact(schema[keyword]).numerator == 1 != exact(schema[keyword])
    return keyword in _ASSERTIONS_ONLY


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


def _pattern(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    yield OtherStrings(place.path, schema["pattern"])


def _format(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    name = negation.document.asserted_format(schema)
    if name in FORMATS_AT_MOST:
        yield OtherStrings(place.path, FORMATS_AT_MOST[name])


def _multiple(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    step = schema["multipleOf"]
    if exact(step) == 1:
        yield numbers(place.path, Numbers(is_fraction=True))
    elif exact(step).numerator > 1:
        yield numbers(place.path, Numbers(not_multiples=(step,)))


def _if(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Values that meet the condition and fail `then`, or fail the condition and `else`."""
    if "then" in schema:
        met = negation.given(schema["if"], place / "if")
        yield Every(place.path, (met, negation.failure(schema["then"], place / "then")))
    if "else" in schema:
        unmet = negation.failure(schema["if"], place / "if")
        yield Every(place.path, (unmet, negation.failure(schema["else"], place / "else")))


def _all_of(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    for i, child in enumerate(schema["allOf"]):
        yield negation.failure(child, place / "allOf" / i)


def _none_of(keyword: str) -> Rule:
    """Values that fail all the subschemas."""

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        children = enumerate(schema[keyword])
        failed = (negation.failure(child, place / keyword / i) for i, child in children)
        yield Every(place.path, tuple(failed))

    return rule


def _one_of(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Values that fail all the subschemas, or meet two."""
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


def _dynamic(keyword: str) -> Rule:
    """Values that fail the target, if it is the same in every dynamic scope."""

    def rule(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
        try:
            there = negation.document.static_reference(keyword, schema[keyword], place)
        except InvalidGuide as error:
            yield Refused(error)
        else:
            yield negation.failed_reference(*there)

    return rule


_RULES: dict[str, Rule] = {
    "type": _type,
    "const": _values,
    "enum": _values,
    **CONTAINER_RULES,
    "pattern": _pattern,
    "format": _format,
    "multipleOf": _multiple,
    "if": _if,
    "allOf": _all_of,
    "anyOf": _none_of("anyOf"),
    "oneOf": _one_of,
    "not": _not,
    "$ref": _ref,
    **{keyword: _dynamic(keyword) for keyword in DYNAMIC},
    **BOUND_RULES,
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
"""The drafts that have a keyword: in others it is ignored, and nothing fails it."""
