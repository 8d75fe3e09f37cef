"""Owns the question whether nodes that hold at once plainly have no instance together, asked before
they are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specguide.guided.budget import spend
from specguide.guided.schema.evaluate import takes
from specguide.guided.schema.json_values import TYPES, json_type
from specguide.guided.schema.nodes import Core, Node, Objects

_EVERY_TYPE = frozenset(TYPES)
_DEEPEST = 4  # references in each other


class Clashes:
    """Nodes of one schema, by its definitions."""

    def __init__(self, definitions: Mapping[str, Core]) -> None:
        self._definitions = definitions
        self._types: dict[int, tuple[Core, frozenset[str]]] = {}

    def any(self, new: Iterable[Node], known: Iterable[Node]) -> bool:
        """Whether no value is an instance of all, by its type or by one of its properties. The
        known ones have been looked at."""
        every = [*new, *known]
        types = _EVERY_TYPE
        for atom in every:
            types &= self.types(atom)
        if not types:
            return True
        if types != {"object"}:
            return False
        asked = [atom.kinds.objects for atom in every]
        required = {name for one in asked for name in one.required}
        named = {
            name
            for atom in new
            for name in (*atom.kinds.objects.required, *atom.kinds.objects.properties)
        }
        return any(self._clash([_of_name(one, name) for one in asked]) for name in required & named)

    def types(self, core: Core, depth: int = 0) -> frozenset[str]:
        """The types that an instance may have; "number" for integers, too."""
        if isinstance(core, bool):
            return _EVERY_TYPE if core else frozenset()
        if id(core) not in self._types:
            spend(2)
            self._types[id(core)] = (core, self._types_of(core, depth))
        return self._types[id(core)][1]

    def _types_of(self, core: Node, depth: int) -> frozenset[str]:
        if depth > _DEEPEST:
            return _EVERY_TYPE
        found = _EVERY_TYPE
        if core.kinds.types is not None:
            found = frozenset("number" if name == "integer" else name for name in core.kinds.types)
        if core.values is not None:
            found &= frozenset(map(json_type, core.values))
        if core.ref is not None:
            found &= self.types(self._definitions[core.ref], depth + 1)
        for part in core.all_of:
            found &= self.types(part, depth + 1)
        if core.any_of:
            found &= frozenset().union(*(self.types(one, depth + 1) for one in core.any_of))
        return found

    def _clash(self, cores: list[Core]) -> bool:
        """Whether no value is an instance of all, by its type or by what one of them lists."""
        types = _EVERY_TYPE
        for core in cores:
            types &= self.types(core)
        if not types:
            return True
        listed = next((one for one in cores if isinstance(one, Node) and one.values), None)
        if listed is None or listed.values is None or len(cores) < 2:
            return False
        others = [core for core in cores if core is not listed and core is not True]
        return not any(
            all(takes(core, value, self._definitions) for core in others) for value in listed.values
        )


def _of_name(asked: Objects, name: str) -> Core:
    """What is plainly asked of a property."""
    if name in asked.properties:
        return asked.properties[name]
    return asked.patterns != {} or asked.additional
