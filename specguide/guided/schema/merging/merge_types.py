"""Owns the types that an instance of a conjunction may have."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import NO_OBJECTS
from specguide.guided.schema.json_values import EVERY_TYPE, TYPES
from specguide.guided.schema.merging.merge_kinds import Atom


def allowed(atoms: Iterable[Atom]) -> frozenset[str]:
    """Returns the types that an instance of all the atoms may have, or more."""
    types = EVERY_TYPE
    required: set[str] = set()
    impossible: set[str] = set()
    num_steps = 0
    for atom in atoms:
        kinds = atom.kinds
        num_steps += 2
        if kinds.types is not None:
            types = _of_both(types, kinds.types)
        if kinds.objects is not NO_OBJECTS:
            required.update(kinds.objects.required)
            impossible |= kinds.objects.impossible
            num_steps += (len(kinds.objects.required) + len(kinds.objects.properties)) // 8
    spend(num_steps)
    return types if required.isdisjoint(impossible) else types - {"object"}


@lru_cache(maxsize=4096)
def _of_both(types: frozenset[str], named: tuple[str, ...]) -> frozenset[str]:
    """The types that both allow; "number" and "integer" together are "integer"."""
    whole = (*named, "number") if "integer" in named else named
    return frozenset(
        ("integer" if name == "number" and "number" not in named else name)
        for name in types
        if name in whole or (name == "integer" and "number" in named)
    )


def in_order(types: frozenset[str], atoms: Iterable[Atom]) -> tuple[str, ...]:
    """Returns the types in the order in which the atoms name them."""
    order = dict.fromkeys(name for atom in atoms for name in atom.kinds.types or ())
    return tuple(name for name in dict.fromkeys((*order, *TYPES, "integer")) if name in types)
