"""Owns the rewriting of `oneOf`: a choice of its branches, each without the instances of the
branches that may overlap with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Kinds, Node, Objects, typed
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.judging.disjoint import Located
from specguide.guided.schema.negation.forms import Branch, Choice, Form, Given
from specguide.guided.schema.negation.negation import Negation
from specguide.guided.schema.topics import allowed_types, takes_all

_Rival: TypeAlias = tuple[Located, bool]
"""A branch that may overlap with another, and whether the two have no property name in common."""


def one_branch(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """Yields forms whose conjunction means: an instance of exactly one branch of the `oneOf`."""
    branches = [(child, place / "oneOf" / i) for i, child in enumerate(schema["oneOf"])]
    plain = [_meant(negation, *branch) for branch in branches]
    types = frozenset(
        name
        for name in allowed_types(schema)
        if sum(takes_all(branch, name) for branch in plain) < 2
    )
    pairs = list(_pairs(negation, schema, place, branches, types))
    rivals: dict[str, list[_Rival]] = {at.path: [] for _, at in branches}
    for left, right, shared in pairs:
        is_named_apart = shared == {"object"} and negation.comparison.share_no_name(left, right)
        rivals[left[1].path].append((right, is_named_apart))
        rivals[right[1].path].append((left, is_named_apart))
    options = (
        Branch(Given(*branch), tuple(_failed(negation, path, rivals[path])))
        for path, branch in zip(rivals, branches, strict=True)
    )
    yield Choice(place.path, tuple(options))
    if types != allowed_types(schema):
        allowed = typed(place.path, *sorted(types))
        yield Node(place.path, all_of=(allowed,)) if types else False


def _failed(negation: Negation, path: str, rivals: Iterable[_Rival]) -> Iterator[Form]:
    """The forms of the values that fail the rivals of the branch at a path. An object with any
    property fails all rivals that have no property name in common with the branch."""
    yield from (negation.failure(*rival) for rival, is_named_apart in rivals if not is_named_apart)
    if any(is_named_apart for _, is_named_apart in rivals):
        yield Node(path, Kinds(objects=Objects(min_properties=1)))


def _meant(negation: Negation, schema: Json, place: Place) -> Json:
    """A branch; if it is only a reference, its target."""
    spend(2)
    if not isinstance(schema, Mapping) or schema.keys() != {"$ref"}:
        return schema
    try:
        negation.document.check(schema, place)
        return negation.document.resolve(schema["$ref"], place)[0]
    except InvalidGuide:  # lowering reports it
        return schema


def _pairs(
    negation: Negation,
    schema: Mapping[str, Json],
    place: Place,
    branches: list[Located],
    types: frozenset[str],
) -> Iterator[tuple[Located, Located, frozenset[str]]]:
    """The pairs of branches that may overlap, and the types of their common instances."""
    beside = {
        keyword: value for keyword, value in schema.items() if keyword not in ("oneOf", "anyOf")
    }
    inherited = negation.required_beside(place)
    if inherited:
        beside["required"] = sorted(inherited.union(schema.get("required", ())))
    for left, right in combinations(branches, 2):
        shared = negation.comparison.shared_types(left, right, types, context=(beside, place))
        if shared:
            yield left, right, shared
