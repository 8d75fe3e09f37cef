"""Owns what the keywords beside `unevaluatedProperties` and `unevaluatedItems` evaluate.

Which that is hangs on which of their subschemas hold. So there are ways, each with what is asserted
beyond the schema itself and what is certainly evaluated then. An instance that fits one way fits
the schema, and for each instance of the schema there is a way that it fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from specguide.guided.budget import spend
from specguide.guided.schema.document import Document, Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.nodes import refuse
from specguide.guided.schema.topics import DYNAMIC

_MAX_WAYS = 32
_MAX_DEPTH = 8
_OF_OBJECTS = frozenset({"additionalProperties", "unevaluatedProperties"})


@dataclass(frozen=True)
class Asserted:
    """A subschema that holds, or where `is_failed` a condition that does not."""

    schema: Json
    place: Place
    is_failed: bool = False


@dataclass(frozen=True)
class Evaluated:
    """Properties that are evaluated. is_all: all of them are"""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    is_all: bool = False


@dataclass(frozen=True)
class Way:
    """What is asserted, and what is evaluated then."""

    evaluated: Evaluated
    asserted: tuple[Asserted, ...] = ()

    def __or__(self, other: Way) -> Way:
        ours, theirs = self.evaluated, other.evaluated
        both = Evaluated(
            tuple(dict.fromkeys(ours.names + theirs.names)),
            tuple(dict.fromkeys(ours.patterns + theirs.patterns)),
            ours.is_all or theirs.is_all,
        )
        return Way(both, self.asserted + other.asserted)


NOTHING = Way(Evaluated())


def ways_of_properties(document: Document, schema: Mapping[str, Json], place: Place) -> list[Way]:
    """The ways of a subschema with `unevaluatedProperties`, which is left out. Raises
    UnsupportedGuide where they are too many, or hang on the way to a reference."""
    beside = {name: value for name, value in schema.items() if name != "unevaluatedProperties"}
    return _Ways(document, place).of(beside, place, 0)


class _Ways:
    def __init__(self, document: Document, place: Place) -> None:
        self._document = document
        self._place = place

    def of(self, schema: Json, place: Place, depth: int) -> list[Way]:
        """The ways of a subschema that holds."""
        if not isinstance(schema, Mapping):
            return [NOTHING]
        if depth > _MAX_DEPTH:
            raise self._refusal("references that lead too deep")
        self._document.check(schema, place)
        place = self._document.enter(schema, place)
        if self._document.draft <= 7 and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        names = tuple(schema.get("properties", ()))
        patterns = tuple(schema.get("patternProperties", ()))
        own = Way(Evaluated(names, patterns, not _OF_OBJECTS.isdisjoint(schema)))
        return self._products([[own], *self._parts(schema, place, depth + 1)])

    def _parts(self, schema: Mapping[str, Json], place: Place, depth: int) -> Iterator[list[Way]]:
        """The ways of each keyword that holds subschemas of the same object."""
        if "$ref" in schema:
            yield self.of(*self._document.resolve(schema["$ref"], place), depth)
        for keyword in sorted(schema.keys() & set(DYNAMIC)):
            there = self._document.static_place(keyword, schema[keyword], place)
            if there is None:
                raise self._refusal(keyword)
            yield self.of(*self._document.resolve(schema[keyword], there), depth)
        for i, child in enumerate(schema.get("allOf", ())):
            yield self.of(child, place / "allOf" / i, depth)
        for i, child in enumerate(schema.get("anyOf", ())):
            yield [NOTHING, *self._if_it_holds(child, place / "anyOf" / i, depth)]
        branches = enumerate(schema.get("oneOf", ()))
        found = (self._if_it_holds(child, place / "oneOf" / i, depth) for i, child in branches)
        yield [NOTHING, *(way for ways in found for way in ways)]
        for name, child in schema.get("dependentSchemas", {}).items():
            is_there = Way(Evaluated(), (Asserted({"required": [name]}, place),))
            inside = self.of(child, place / "dependentSchemas" / name, depth)
            yield [NOTHING, *(is_there | way for way in inside if _is_some(way))]
        if "if" in schema:
            yield self._conditional(schema, place, depth)

    def _if_it_holds(self, schema: Json, place: Place, depth: int) -> list[Way]:
        """The ways of a subschema that may hold, in which it evaluates something."""
        holds = Way(Evaluated(), (Asserted(schema, place),))
        return [holds | way for way in self.of(schema, place, depth) if _is_some(way)]

    def _conditional(self, schema: Mapping[str, Json], place: Place, depth: int) -> list[Way]:
        condition, then, otherwise = (
            self.of(schema.get(keyword, True), place / keyword, depth)
            for keyword in ("if", "then", "else")
        )
        met = Way(Evaluated(), (Asserted(schema["if"], place / "if"),))
        unmet = Way(Evaluated(), (Asserted(schema["if"], place, is_failed=True),))
        both = self._products([condition, then])
        return [
            NOTHING,
            *(met | way for way in both if _is_some(way)),
            *(unmet | way for way in otherwise if _is_some(way)),
        ]

    def _products(self, parts: Iterable[list[Way]]) -> list[Way]:
        """What holds at once, one way of each part."""
        found = [NOTHING]
        for ways in parts:
            spend(len(found) * len(ways))
            if len(found) * len(ways) > _MAX_WAYS:
                raise self._refusal("too many choices")
            found = [one | other for one, other in product(found, ways)]
        return found

    def _refusal(self, what: str) -> Exception:
        why = f"which properties it speaks of hangs on {what}"
        return refuse("unevaluatedProperties", self._place.path, why)


def _is_some(way: Way) -> bool:
    return way.evaluated != NOTHING.evaluated
