"""Owns the proof that two subschemas share no instance, which lets `oneOf` become `anyOf`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import TypeAlias

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.regex.both import share_no_text
from specguide.guided.regex.tree import RegexError
from specguide.guided.regex.whole import searched
from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import (
    EVERY_TYPE,
    Json,
    Key,
    is_object,
    json_type,
    keys_by_type,
    value_key,
)
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.schema.judging.names_apart import share_no_name
from specguide.guided.schema.judging.ruled_out import (
    ANYWHERE,
    Located,
    listed_values,
    property_of,
    rules_out,
)
from specguide.guided.schema.topics import allowed_types

_MAX_DEPTH = 12
_MAX_STEPS = 20_000
_BOUNDS = {
    "number": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}

_Comparing: TypeAlias = tuple[int, Place, int, Place, frozenset[str]]
_Shared: TypeAlias = tuple[Located, Located, frozenset[str]]
"""Two subschemas, and the types that common instances may have."""


class Comparison:
    """Compares subschemas of one document. After `_MAX_STEPS` steps in all it gives up and proves
    nothing more."""

    def __init__(self, document: Document, instances: Instances) -> None:
        self._document = document
        self._instances = instances
        self._num_steps = 0
        self._num_given_up = 0
        self._proven: dict[_Comparing, _Shared] = {}
        self._tried: dict[_Comparing, _Shared] = {}
        """Comparisons that are under way or were given up."""
        self._conjuncts_of: dict[int, tuple[Located, list[Located]]] = {}

    def are_disjoint(self, left: Located, right: Located, depth: int = 0) -> bool:
        """Whether it is certain that no value is an instance of both; False proves nothing."""
        return not self.shared_types(left, right, EVERY_TYPE, depth)

    def share_no_name(self, left: Located, right: Located) -> bool:
        """Whether it is certain that no object with a property is an instance of both."""
        pairs = product(self._all_conjuncts(left), self._all_conjuncts(right))
        return any(share_no_name(one, other) for (one, _), (other, _) in pairs)

    def shared_types(
        self,
        left: Located,
        right: Located,
        types: frozenset[str],
        depth: int = 0,
        context: Located = ANYWHERE,
    ) -> frozenset[str]:
        """Returns those of `types` that an instance of both subschemas, and of `context`, may have.
        A type is left out only if it is certain that there is no such instance."""
        spend(2)
        if depth == 0:
            self._tried.clear()
        if depth > _MAX_DEPTH or self._num_steps > _MAX_STEPS:
            self._num_given_up += 1
            return types
        if context is not ANYWHERE:
            return self._shared_types(left, right, types, depth, context)
        key = (id(left[0]), left[1], id(right[0]), right[1], types)
        for known in (self._proven, self._tried):
            if key in known:
                self._num_given_up += known is self._tried
                return known[key][-1]
        self._tried[key] = left, right, types  # holds the schemas, so that no other gets their ids
        num_given_up = self._num_given_up
        shared = self._shared_types(left, right, types, depth, context)
        is_certain = not shared or num_given_up == self._num_given_up
        (self._proven if is_certain else self._tried)[key] = left, right, shared
        return shared

    def _shared_types(
        self, left: Located, right: Located, types: frozenset[str], depth: int, context: Located
    ) -> frozenset[str]:
        self._num_steps += depth > 0
        for side in (left, right):
            self._document.check(*side)
        if left[0] is False or right[0] is False or _list_others(left[0], right[0]):
            return frozenset()
        spend(10)
        for one, other in ((left, right), (right, left)):
            for options in self._alternatives(one):
                shared = (
                    self.shared_types(option, other, types, depth + 1, context)
                    for option in options
                )
                types &= frozenset().union(*shared)
        return frozenset(self._shared_by_conjuncts(left, right, types, depth, context))

    def _shared_by_conjuncts(
        self, left: Located, right: Located, types: frozenset[str], depth: int, context: Located
    ) -> Iterator[str]:
        """The types that no two conjuncts of the sides exclude by their own keywords."""
        ours, theirs = (self._all_conjuncts(side) for side in (left, right))
        everything = [schema for schema, _ in (*ours, *theirs, *self._all_conjuncts(context))]
        required = dict.fromkeys(
            name for schema in everything for name in schema.get("required", ())
        )
        for name in types:
            if not all(name in _types(schema) for schema in everything):
                continue
            if any(self._apart(name, *pair, depth) for pair in product(ours, theirs)):
                continue
            if name == "object" and (
                self._have_apart(required, ours, theirs, depth + 1)
                or self._rule_out(required, ours, theirs)
            ):
                continue
            yield name

    def _rule_out(
        self, required: Collection[str], ours: list[Located], theirs: list[Located]
    ) -> bool:
        """Whether a `not` of one side rules out all objects of the other."""
        return any(
            rules_out(self._document, self._instances, one, others, required)
            for side, others in ((ours, theirs), (theirs, ours))
            for one in side
            if "not" in one[0]
        )

    def _have_apart(
        self, names: Iterable[str], ours: list[Located], theirs: list[Located], depth: int
    ) -> bool:
        """Whether no value fits what both sides' conjuncts say of one of these properties."""
        for name in names:
            spend(1 + len(ours) + len(theirs))
            left, right = (
                [child for side in sides if (child := property_of(side, name))[0] is not True]
                for sides in (ours, theirs)
            )
            if any(child is False for child, _ in (*left, *right)):
                return True
            if any(self.are_disjoint(*pair, depth) for pair in product(left, right)):
                return True
        return False

    def possible_types(self, located: Located, depth: int = 0) -> frozenset[str]:
        """Returns the types that an instance of the subschema may have, or more."""
        self._num_steps += 1
        spend(5)
        if located[0] is False:
            return frozenset()
        types = EVERY_TYPE
        for schema, _ in self.conjuncts(located, depth):
            types &= _types(schema)
        if depth <= _MAX_DEPTH and self._num_steps <= _MAX_STEPS:
            for options in self._alternatives(located):
                types &= frozenset().union(
                    *(self.possible_types(option, depth + 1) for option in options)
                )
        return types

    def _all_conjuncts(self, located: Located) -> list[Located]:
        """`conjuncts`, remembered for each subschema, since it is compared with many others."""
        spend(1)
        known, conjuncts = self._conjuncts_of.get(id(located[0]), (None, []))
        if known is None or known[0] is not located[0] or known[1] != located[1]:
            conjuncts = list(self.conjuncts(located))
            # The entry holds the schema, so that no other gets its id.
            self._conjuncts_of[id(located[0])] = located, conjuncts
        return conjuncts

    def conjuncts(self, located: Located, depth: int = 0) -> Iterator[Located]:
        """Yields the subschema and those it includes by `$ref` and `allOf`, up to a depth."""
        schema, place = located
        if not is_object(schema) or depth > _MAX_DEPTH:
            return
        spend(3)
        self._document.check(schema, place)
        place = self._document.enter(schema, place)
        if "$ref" in schema:
            try:
                yield from self.conjuncts(self._document.resolve(schema["$ref"], place), depth + 1)
            except InvalidGuide:
                return
            if self._document.draft <= 7:
                return
        yield schema, place
        for i, child in enumerate(schema.get("allOf", ())):
            yield from self.conjuncts((child, place / "allOf" / i), depth + 1)

    def _alternatives(self, located: Located) -> Iterator[list[Located]]:
        """Lists of subschemas, from each of which an instance fits at least one."""
        for schema, place in self._all_conjuncts(located):
            for keyword in ("anyOf", "oneOf"):
                if keyword in schema:
                    yield [(child, place / keyword / i) for i, child in enumerate(schema[keyword])]

    def _apart(self, name: str, left: Located, right: Located, depth: int) -> bool:
        """Whether no instance of type `name` fits both, by their own keywords but for those of
        properties."""
        if any(
            self._takes_none(side, other, name) for side, other in ((left, right), (right, left))
        ):
            return True
        values, others = _values(left[0]), _values(right[0])
        if values is not None and others is not None:
            return _have_none_in_common(values.get(name, set()), others.get(name, set()))
        if name == "object":
            has_some = any(side[0].get("minProperties", 0) for side in (left, right))
            return has_some and share_no_name(left[0], right[0])
        if name == "array" and any(side[0].get("minItems", 0) > 0 for side in (left, right)):
            first, other = self._first_item(left), self._first_item(right)
            if self.are_disjoint(first, other, depth + 1):
                return True
        if name == "string" and _patterns_are_apart(left[0], right[0]):
            return True
        least, most = _BOUNDS.get(name, ("", ""))
        return any(
            least in side and most in other and side[least] > other[most]
            for side, other in ((left[0], right[0]), (right[0], left[0]))
        )

    def _first_item(self, located: Located) -> Located:
        """The subschema of an array's first item, by one subschema's own keywords."""
        schema, place = located
        if self._document.draft >= 2020 and "prefixItems" in schema:
            return schema["prefixItems"][0], place / "prefixItems" / 0
        items = schema.get("items", True)
        if isinstance(items, list):
            return (items[0], place / "items" / 0) if items else ANYWHERE
        return items, place / "items"

    def _takes_none(self, listing: Located, other: Located, name: str) -> bool:
        """Whether `listing` enumerates values, and none of type `name` fits `other`."""
        if not other[0].keys().isdisjoint(("const", "enum")):
            return False
        values = listed_values(listing[0])
        return values is not None and all(
            self._instances.fits(*other, value) is False
            for value in values
            if json_type(value) == name
        )


def _list_others(left: Json, right: Json) -> bool:
    """Whether two subschemas enumerate values and have none in common. This quick check comes
    first: a oneOf may have many such pairs."""
    if not is_object(left) or not is_object(right) or "$ref" in left or "$ref" in right:
        return False
    values, others = _values(left), _values(right)
    return (
        values is not None
        and others is not None
        and all(
            _have_none_in_common(keys, others.get(name, set())) for name, keys in values.items()
        )
    )


def _have_none_in_common(left: set[Key], right: set[Key]) -> bool:
    spend(min(len(left), len(right)) // 8)
    return left.isdisjoint(right) if len(left) < len(right) else right.isdisjoint(left)


def _patterns_are_apart(left: Mapping[str, Json], right: Mapping[str, Json]) -> bool:
    """Whether both have a `pattern`, and no string matches both."""
    if "pattern" not in left or "pattern" not in right:
        return False
    try:
        return share_no_text(searched(left["pattern"]), searched(right["pattern"]))
    except RegexError:  # lowering reports it
        return False


def _values(schema: Mapping[str, Json]) -> dict[str, set[Key]] | None:
    """The keys of the values that `const` or `enum` lists, by type; None without these keywords."""
    if "const" in schema:
        key = value_key(schema["const"])
        return {key[0]: {key}}
    return keys_by_type(schema["enum"]) if "enum" in schema else None


def _types(schema: Mapping[str, Json]) -> frozenset[str]:
    values = _values(schema)
    return allowed_types(schema) if values is None else frozenset(values)
