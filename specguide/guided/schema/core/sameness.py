"""Owns Sameness, which numbers core nodes so that equal nodes get the same number."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import (
    ANYTHING,
    NO_ARRAYS,
    NO_OBJECTS,
    Arrays,
    Core,
    Kinds,
    Node,
    Objects,
)
from specguide.guided.schema.json_values import value_key


class Sameness:
    """The numbers given so far."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Core, int]] = {}

    def number(self, core: Core) -> int:
        """Returns the number of a node, which is the same for nodes with the same constraints in
        the same order, whatever their paths."""
        known = self._known.get(id(core))
        if known is not None:
            return known[1]
        if isinstance(core, bool):
            return -1 - core
        spend(2)
        number = self._numbers.setdefault(self._key(core), len(self._numbers))
        self._known[id(core)] = core, number
        return number

    def _key(self, node: Node) -> Hashable:
        values = None if node.values is None else tuple(map(value_key, node.values))
        kinds = None if node.kinds is ANYTHING else self._of_kinds(node.kinds)
        return values, node.ref, kinds, self._each(node.any_of), self._each(node.all_of)

    def _of_kinds(self, kinds: Kinds) -> Hashable:
        arrays = None if kinds.arrays is NO_ARRAYS else self._of_arrays(kinds.arrays)
        objects = None if kinds.objects is NO_OBJECTS else self._of_objects(kinds.objects)
        return kinds.types, kinds.numbers, kinds.strings, arrays, objects

    def _of_arrays(self, arrays: Arrays) -> Hashable:
        rest = self.number(arrays.rest)
        return (
            arrays.min_items,
            arrays.max_items,
            self._each(arrays.prefix),
            rest,
            arrays.is_distinct,
        )

    def _of_objects(self, objects: Objects) -> Hashable:
        named = self._named(objects.properties), self._named(objects.patterns)
        counts = objects.required, objects.min_properties, objects.max_properties
        return named, self.number(objects.additional), counts

    def _each(self, cores: tuple[Core, ...]) -> tuple[int, ...]:
        return tuple(map(self.number, cores))

    def _named(self, cores: Mapping[str, Core]) -> tuple[tuple[str, int], ...]:
        return tuple((name, self.number(core)) for name, core in cores.items())
