"""Owns what the keywords beside `unevaluatedProperties` and `unevaluatedItems` evaluate.

That depends on which of the subschemas beside them hold. Each Way therefore asserts subschemas, and
says what is then certainly evaluated. An instance of one way is an instance of the schema, and each
instance of the schema is one of at least one way.
Source: JSON Schema Core 2020-12, 11.2 and 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Core, refuse
from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.lowering.lowering import Lowering
from specguide.guided.schema.topics import DYNAMIC

_MAX_WAYS = 32
_MAX_DEPTH = 8
_OF_OBJECTS = frozenset({"additionalProperties", "unevaluatedProperties"})
_OF_LISTED_ITEMS = frozenset({"additionalItems", "unevaluatedItems"})


@dataclass(frozen=True)
class Asserted:
    """A subschema that is asserted; with `is_failed`, a condition that must fail."""

    schema: Json
    place: Place
    is_failed: bool = False


@dataclass(frozen=True)
class Evaluated:
    """Evaluated properties or items.

    names, patterns: of evaluated properties
    num_items:       number of first items that are evaluated
    contained:       items that fit one of these are evaluated
    is_all:          everything is evaluated
    """

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    num_items: int = 0
    contained: tuple[Asserted, ...] = ()
    is_all: bool = False


@dataclass(frozen=True)
class Way:
    """Asserted subschemas, and what is then evaluated."""

    evaluated: Evaluated
    asserted: tuple[Asserted, ...] = ()

    def __or__(self, other: Way) -> Way:
        ours, theirs = self.evaluated, other.evaluated
        both = Evaluated(
            tuple(dict.fromkeys(ours.names + theirs.names)),
            tuple(dict.fromkeys(ours.patterns + theirs.patterns)),
            max(ours.num_items, theirs.num_items),
            ours.contained + theirs.contained,
            ours.is_all or theirs.is_all,
        )
        return Way(both, self.asserted + other.asserted)


NOTHING = Way(Evaluated())


Own: TypeAlias = Callable[[Document, Mapping[str, Json], Place], Evaluated]
"""Returns what a subschema's keywords evaluate, without the in-place applicators (`allOf`…)."""


def ways_of_properties(document: Document, schema: Mapping[str, Json], place: Place) -> list[Way]:
    """Returns the ways of a subschema, without its `unevaluatedProperties`. Raises UnsupportedGuide
    for too many ways, or a reference whose target depends on the dynamic scope."""
    return _ways("unevaluatedProperties", _own_properties, document, schema, place)


def ways_of_items(document: Document, schema: Mapping[str, Json], place: Place) -> list[Way]:
    """Returns the ways of a subschema, without its `unevaluatedItems`. Raises UnsupportedGuide for
    too many ways, or a reference whose target depends on the dynamic scope."""
    return _ways("unevaluatedItems", _own_items, document, schema, place)


def asserted(lowering: Lowering, way: Way) -> list[Core]:
    """Returns the cores of the subschemas that a way asserts."""
    return [
        lowering.failed_condition(assertion.place)
        if assertion.is_failed
        else lowering.lower(assertion.schema, assertion.place)
        for assertion in way.asserted
    ]


def _ways(
    keyword: str, own: Own, document: Document, schema: Mapping[str, Json], place: Place
) -> list[Way]:
    beside = {name: value for name, value in schema.items() if name != keyword}
    return _Ways(keyword, own, document, place).of(beside, place, 0, NOTHING)


def _own_properties(_: Document, schema: Mapping[str, Json], __: Place) -> Evaluated:
    names = tuple(schema.get("properties", ()))
    patterns = tuple(schema.get("patternProperties", ()))
    return Evaluated(names, patterns, is_all=not _OF_OBJECTS.isdisjoint(schema))


def _own_items(document: Document, schema: Mapping[str, Json], place: Place) -> Evaluated:
    items = schema.get("items")
    if isinstance(items, list):  # up to 2019-09
        is_all = not _OF_LISTED_ITEMS.isdisjoint(schema)
        return Evaluated(num_items=len(items), is_all=is_all)
    is_all = items is not None or "unevaluatedItems" in schema
    if document.draft < 2020:
        return Evaluated(is_all=is_all)
    contained = (Asserted(schema["contains"], place / "contains"),) if "contains" in schema else ()
    return Evaluated((), (), len(schema.get("prefixItems", ())), contained, is_all)


class _Ways:
    def __init__(self, keyword: str, own: Own, document: Document, place: Place) -> None:
        self._keyword = keyword
        self._own = own
        self._document = document
        self._place = place

    def of(self, schema: Json, place: Place, depth: int, known: Way) -> list[Way]:
        """Returns the ways of a subschema that is asserted.

        known: evaluated in any case; a subschema that adds nothing to it makes no ways
        """
        if not isinstance(schema, Mapping):
            return [NOTHING]
        if depth > _MAX_DEPTH:
            raise self._refusal(f"a chain of more than {_MAX_DEPTH} references")
        schema, place = self._document.read(schema, place)
        own = Way(self._own(self._document, schema, place))
        return self._products([[own], *self._parts(schema, place, depth + 1, known | own)])

    def _parts(
        self, schema: Mapping[str, Json], place: Place, depth: int, known: Way
    ) -> Iterator[list[Way]]:
        """The ways of each keyword that applies subschemas to the same value."""
        if "$ref" in schema:
            yield self.of(*self._document.resolve(schema["$ref"], place), depth, known)
        for keyword in sorted(schema.keys() & set(DYNAMIC)):
            there = self._document.static_reference(keyword, schema[keyword], place)
            yield self.of(*self._document.resolve(*there), depth, known)
        for i, child in enumerate(schema.get("allOf", ())):
            yield self.of(child, place / "allOf" / i, depth, known)
        for i, child in enumerate(schema.get("anyOf", ())):
            yield [NOTHING, *self._if_it_holds(child, place / "anyOf" / i, depth, known)]
        options = [
            way
            for i, child in enumerate(schema.get("oneOf", ()))
            for way in self._if_it_holds(child, place / "oneOf" / i, depth, known)
        ]
        yield [NOTHING, *options]
        for name, child in schema.get("dependentSchemas", {}).items():
            condition = {"type": "object", "required": [name]}
            is_there = Way(Evaluated(), (Asserted(condition, place),))
            inside = self.of(child, place / "dependentSchemas" / name, depth, known)
            yield [NOTHING, *(is_there | way for way in inside if _adds(way, known))]
        if "if" in schema:
            yield self._conditional(schema, place, depth, known)

    def _if_it_holds(self, schema: Json, place: Place, depth: int, known: Way) -> list[Way]:
        """The ways in which a subschema is asserted and evaluates something."""
        holds = Way(Evaluated(), (Asserted(schema, place),))
        inside = self.of(schema, place, depth, known)
        return [holds | way for way in inside if _adds(way, known)]

    def _conditional(
        self, schema: Mapping[str, Json], place: Place, depth: int, known: Way
    ) -> list[Way]:
        condition, then, otherwise = (
            self.of(schema.get(keyword, True), place / keyword, depth, known)
            for keyword in ("if", "then", "else")
        )
        met = Way(Evaluated(), (Asserted(schema["if"], place / "if"),))
        unmet = Way(Evaluated(), (Asserted(schema["if"], place, is_failed=True),))
        both = self._products([condition, then])
        return [
            NOTHING,
            *(met | way for way in both if _adds(way, known)),
            *(unmet | way for way in otherwise if _adds(way, known)),
        ]

    def _products(self, parts: Iterable[list[Way]]) -> list[Way]:
        """The conjunctions of one way from each part."""
        products = [NOTHING]
        for ways in parts:
            spend(len(products) * len(ways))
            if len(products) * len(ways) > _MAX_WAYS:
                raise self._refusal(f"more than {_MAX_WAYS} combinations of choices")
            products = [way | other for way, other in product(products, ways)]
        return products

    def _refusal(self, what: str) -> Exception:
        why = f"what it applies to depends on {what}; make the schema beside it simpler"
        return refuse(self._keyword, self._place.path, why)


def _adds(way: Way, known: Way) -> bool:
    """Whether a way evaluates more than `known`."""
    return (known | way).evaluated != known.evaluated
