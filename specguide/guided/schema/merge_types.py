"""Owns of which types a value is that fits several schemas at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from specguide.guided.budget import spend
from specguide.guided.schema.json_values import TYPES
from specguide.guided.schema.merge_kinds import Atom
from specguide.guided.schema.nodes import NO_OBJECTS, Core

EVERY_TYPE = frozenset(TYPES)


def allowed(atoms: Iterable[Atom]) -> frozenset[str]:
    """The types of which a value may be that fits all the atoms, as far as is plain."""
    types = EVERY_TYPE
    required: set[str] = set()
    named: list[Mapping[str, Core]] = []
    for atom in atoms:
        asked = atom.kinds.objects
        spend(2 + (len(asked.required) + len(asked.properties)) // 8)
        if atom.kinds.types is not None:
            types = _of_both(types, atom.kinds.types)
        if asked is not NO_OBJECTS:
            required.update(asked.required)
            named.append(asked.properties)
    is_impossible = any(one.get(name) is False for one in named for name in required)
    return types - {"object"} if is_impossible else types


@lru_cache(maxsize=4096)
def _of_both(types: frozenset[str], named: tuple[str, ...]) -> frozenset[str]:
    """The types that both allow; numbers of the one and integers of the other are integers."""
    whole = (*named, "number") if "integer" in named else named
    return frozenset(
        ("integer" if name == "number" and "number" not in named else name)
        for name in types
        if name in whole or (name == "integer" and "number" in named)
    )


def in_order(types: frozenset[str], atoms: Iterable[Atom]) -> tuple[str, ...]:
    """The types in the order in which the atoms name them."""
    order = dict.fromkeys(name for atom in atoms for name in atom.kinds.types or ())
    return tuple(name for name in dict.fromkeys((*order, *TYPES, "integer")) if name in types)
