"""Owns the conjunction of several objects' constraints of their named properties.

A choice beside an object of many properties makes many conjunctions with that object, so the
subschemas of properties that only it constrains are merged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import asked_of
from specguide.guided.schema.core.nodes import Core, Objects

Conjoin: TypeAlias = Callable[[Iterable[Core], str], Core]
"""Returns the conjunction of nodes, with this path."""


class Members:
    """Merges the properties of one schema's objects."""

    def __init__(self, conjoin: Conjoin) -> None:
        self.conjoin = conjoin
        # By id of an object, which is held here, so that no other object gets its id.
        self._alone: dict[int, tuple[Objects, dict[str, Core]]] = {}

    def named(self, asked: list[Objects], required: Iterable[str], path: str) -> dict[str, Core]:
        """Returns the merged subschema of each property that an object names or requires, in the
        order of the names."""
        if len(asked) == 1:
            (one,) = asked
            spend(len(one.properties))
            names = dict.fromkeys((*one.properties, *required))
            return {name: self.conjoin(asked_of(one, name), path) for name in names}
        found: dict[str, Core] = {}
        shared: set[str] = set()  # names that are not constrained by one object alone
        for one in asked:
            shared |= found.keys() & one.properties.keys()
            found |= one.properties
        shared.update(name for name in required if name not in found)
        found = dict.fromkeys((*found, *required), True)
        others = list(filter(_asks_of_others, asked))
        spend(sum(len(one.properties) for one in asked) + len(others) * len(found) // 2)
        tables = []
        for one in asked:
            if not one.patterns and all(other is one for other in others):
                _, known = self._alone.setdefault(id(one), (one, {}))
                tables.append((one, known))
                found |= known
            else:
                shared |= one.properties.keys()
        left = shared.union(*(one.properties.keys() - known.keys() for one, known in tables))
        for name in [name for name in found if name in left]:
            asking = [one for one in asked if name in one.properties or _asks_of_others(one)]
            parts = [child for one in asking for child in asked_of(one, name)]
            found[name] = self.conjoin(parts, path)
        for one, known in tables:
            if len(known) < len(one.properties):
                known.update((name, found[name]) for name in one.properties.keys() - shared)
        return found


def _asks_of_others(asked: Objects) -> bool:
    """Whether it constrains properties that it does not name."""
    return bool(asked.patterns) or asked.additional is not True
