"""Owns the rewriting of `oneOf`: a choice of its branches, each without the instances of those that
it may share some with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.schema.disjoint import Located
from specguide.guided.schema.document import Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.negation.forms import Branch, Choice, Form, Given
from specguide.guided.schema.negation.negation import Negation
from specguide.guided.schema.nodes import Node, typed
from specguide.guided.schema.topics import allowed_types, takes_all


def one_branch(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """The forms of what fits one branch of a subschema's `oneOf` and no other."""
    branches = [(child, place / "oneOf" / i) for i, child in enumerate(schema["oneOf"])]
    plain = [_meant(negation, *branch) for branch in branches]
    types = frozenset(
        name
        for name in allowed_types(schema)
        if sum(takes_all(branch, name) for branch in plain) < 2
    )
    pairs = list(_pairs(negation, schema, place, branches, types))
    rivals: dict[str, list[Located]] = {at.path: [] for _, at in branches}
    for left, right in pairs:
        rivals[left[1].path].append(right)
        rivals[right[1].path].append(left)
    options = (
        Branch(Given(*branch), tuple(negation.failure(*rival) for rival in rivals[path]))
        for path, branch in zip(rivals, branches, strict=True)
    )
    yield Choice(place.path, tuple(options))
    if types != allowed_types(schema):
        kept = typed(place.path, *sorted(types))
        yield Node(place.path, all_of=(kept,)) if types else False


def _meant(negation: Negation, schema: Json, place: Place) -> Json:
    """A branch, or what it refers to if it says nothing else."""
    spend(2)
    if not isinstance(schema, Mapping) or schema.keys() != {"$ref"}:
        return schema
    try:
        negation.document.check(schema, place)
        return negation.document.resolve(schema["$ref"], place)[0]
    except InvalidGuide:  # which is said elsewhere
        return schema


def _pairs(
    negation: Negation,
    schema: Mapping[str, Json],
    place: Place,
    branches: list[Located],
    types: frozenset[str],
) -> Iterator[tuple[Located, Located]]:
    """The pairs of branches that may share instances of some types."""
    beside = {
        keyword: value for keyword, value in schema.items() if keyword not in ("oneOf", "anyOf")
    }
    inherited = negation.required_beside(place)
    if inherited:
        beside["required"] = sorted(inherited.union(schema.get("required", ())))
    for left, right in combinations(branches, 2):
        if negation.comparison.shared_types(left, right, types, context=(beside, place)):
            yield left, right
