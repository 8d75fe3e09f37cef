"""Owns the conjunction of several objects' constraints of their named properties.

A choice beside an object of many properties makes many conjunctions with that object, so the
subschemas of properties that only it constrains are merged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import schemas_of_property
from specguide.guided.schema.core.nodes import Core, Objects

Conjoin: TypeAlias = Callable[[Iterable[Core], str], Core]
"""Returns the conjunction of nodes, with this path."""


class Members:
    """Merges the properties of one schema's objects."""

    def __init__(self, conjoin: Conjoin) -> None:
        self.conjoin = conjoin
        # By id of an object, which is held here, so that no other object gets its id.
        self._alone: dict[int, tuple[Objects, dict[str, Core]]] = {}

    def named(self, objects: list[Objects], required: Iterable[str], path: str) -> dict[str, Core]:
        """Returns the merged subschema of each property that an object names or requires, in the
        order of the names."""
        if len(objects) == 1:
            (one,) = objects
            spend(len(one.properties))
            names = dict.fromkeys((*one.properties, *required))
            return {name: self.conjoin(schemas_of_property(one, name), path) for name in names}
        properties: dict[str, Core] = {}
        shared: set[str] = set()  # names that are not constrained by one object alone
        for one in objects:
            shared |= properties.keys() & one.properties.keys()
            properties |= one.properties
        shared.update(name for name in required if name not in properties)
        properties = dict.fromkeys((*properties, *required), True)
        others = list(filter(_constrains_others, objects))
        spend(sum(len(one.properties) for one in objects) + len(others) * len(properties) // 2)
        tables = []
        for one in objects:
            if not one.patterns and all(other is one for other in others):
                _, known = self._alone.setdefault(id(one), (one, {}))
                tables.append((one, known))
                properties |= known
            else:
                shared |= one.properties.keys()
        left = shared.union(*(one.properties.keys() - known.keys() for one, known in tables))
        for name in [name for name in properties if name in left]:
            asking = [one for one in objects if name in one.properties or _constrains_others(one)]
            parts = [child for one in asking for child in schemas_of_property(one, name)]
            properties[name] = self.conjoin(parts, path)
        for one, known in tables:
            if len(known) < len(one.properties):
                known.update((name, properties[name]) for name in one.properties.keys() - shared)
        return properties


def _constrains_others(objects: Objects) -> bool:
    """Whether it constrains properties that it does not name."""
    return bool(objects.patterns) or objects.additional is not True
