"""Owns how much nodes ask that hold at once: of many ways to fail a subschema the simplest ones are
kept."""

from __future__ import annotations

from collections.abc import Iterable

from specguide.guided.schema.core.keywords import weight
from specguide.guided.schema.core.nodes import Node


class Weights:
    """What nodes of one schema weigh."""

    def __init__(self) -> None:
        # By the nodes' identities; they are kept alive, so that these stay their own.
        self._known: dict[int, tuple[Node, int]] = {}

    def of(self, atoms: Iterable[Node], told: set[str]) -> int:
        """How much atoms ask. What they ask of properties whose values are listed already counts
        for little: it chooses among these."""
        return sum(self._own(atom) - self._told(atom, told) for atom in atoms)

    def _own(self, node: Node) -> int:
        if id(node) not in self._known:
            self._known[id(node)] = node, weight(node)
        return self._known[id(node)][1]

    def _told(self, atom: Node, told: set[str]) -> int:
        asked = atom.kinds.objects.properties
        found = (asked[name] for name in asked.keys() & told)
        return sum(self._own(child) for child in found if isinstance(child, Node))


def listed_properties(atoms: Iterable[Node]) -> set[str]:
    """Names of the properties whose values are listed."""
    return {
        name
        for atom in atoms
        for name, child in atom.kinds.objects.properties.items()
        if isinstance(child, Node) and child.values is not None
    }
