"""Owns the weights of nodes: of many ways to fail a subschema, the lightest are kept."""

from __future__ import annotations

from collections.abc import Iterable

from specguide.guided.schema.core.keywords import weight
from specguide.guided.schema.core.nodes import Node


class Weights:
    """The weights of one schema's nodes."""

    def __init__(self) -> None:
        # By id of a node, which is held here, so that no other node gets its id.
        self._known: dict[int, tuple[Node, int]] = {}

    def of(self, atoms: Iterable[Node], enumerated: set[str]) -> int:
        """Returns the weight of atoms. Constraints of properties whose values are enumerated do not
        count: they only choose among these values. enumerated: the names of such properties"""
        return sum(self._own(atom) - self._of_enumerated(atom, enumerated) for atom in atoms)

    def _own(self, node: Node) -> int:
        if id(node) not in self._known:
            self._known[id(node)] = node, weight(node)
        return self._known[id(node)][1]

    def _of_enumerated(self, atom: Node, enumerated: set[str]) -> int:
        properties = atom.kinds.objects.properties
        children = (properties[name] for name in properties.keys() & enumerated)
        return sum(self._own(child) for child in children if isinstance(child, Node))


def listed_properties(atoms: Iterable[Node]) -> set[str]:
    """Returns the names of the properties whose values are enumerated."""
    return {
        name
        for atom in atoms
        for name, child in atom.kinds.objects.properties.items()
        if isinstance(child, Node) and child.values is not None
    }
