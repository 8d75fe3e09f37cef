"""Owns a quick check, before merging, whether a conjunction of nodes plainly has no instance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import product

from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import takes
from specguide.guided.schema.core.nodes import NO_OBJECTS, Core, Node, Objects, num_constraints
from specguide.guided.schema.json_values import EVERY_TYPE, json_type

_DEEPEST = 4  # nested references


class Clashes:
    """Checks conjunctions of one schema's nodes."""

    def __init__(self, definitions: Mapping[str, Core]) -> None:
        self._definitions = definitions
        self._types: dict[int, tuple[Core, frozenset[str]]] = {}

    def beside(self, known: Iterable[Node]) -> Beside:
        """Returns a check of further nodes in a conjunction with the known ones."""
        return Beside(self, list(known))

    def types(self, core: Core, depth: int = 0) -> frozenset[str]:
        """Returns the types that an instance may have; integers count as "number"."""
        if isinstance(core, bool):
            return EVERY_TYPE if core else frozenset()
        known = self._types.get(id(core))
        if known is None:
            spend(2)
            known = self._types[id(core)] = core, self._types_of(core, depth)
        return known[1]

    def types_of_all(self, cores: Iterable[Core]) -> frozenset[str]:
        """Returns the types that an instance of the conjunction may have."""
        types = EVERY_TYPE
        for core in cores:
            types &= self.types(core)
        return types

    def _types_of(self, core: Node, depth: int) -> frozenset[str]:
        if depth > _DEEPEST:
            return EVERY_TYPE
        types = EVERY_TYPE
        if core.kinds.types is not None:
            types = frozenset("number" if name == "integer" else name for name in core.kinds.types)
        if core.values is not None:
            types &= frozenset(map(json_type, core.values))
        if core.ref is not None:
            types &= self.types(self._definitions[core.ref], depth + 1)
        for part in core.all_of:
            types &= self.types(part, depth + 1)
        if core.any_of:
            types &= frozenset().union(*(self.types(option, depth + 1) for option in core.any_of))
        return types

    def clash(self, new: list[Core], known: list[Core]) -> bool:
        """Whether no value is an instance of all, by types or by the values that one of them
        enumerates. The known cores do not clash with each other."""
        if not self.types_of_all([*new, *known]):
            return True
        return _clash_with_listed(self._definitions, known, new) or _clash_with_listed(
            self._definitions, new, [*new, *known]
        )

    def apart(self, one: Core, other: Core) -> bool:
        """Whether it is plain that no value is an instance of both."""
        return all(
            self.clash([left], [right]) or self.beside([left]).clash([right])
            for left, right in product(self._options(one), self._options(other))
        )

    def _options(self, core: Core, depth: int = 0) -> list[Node]:
        """The options of a core that is only a choice, or a reference to one; else the core."""
        if isinstance(core, bool):
            return [Node("")] if core else []
        if num_constraints(core) == 1 and depth <= _DEEPEST:
            if core.ref is not None:
                return self._options(self._definitions[core.ref], depth + 1)
            if core.any_of:
                return [option for part in core.any_of for option in self._options(part, depth + 1)]
        return [core]


def _clash_with_listed(
    definitions: Mapping[str, Core], cores: list[Core], others: list[Core]
) -> bool:
    """Whether one of the cores enumerates values, and none of them fits the others."""
    listed = next(
        (listing.values for listing in cores if isinstance(listing, Node) and listing.values), None
    )
    return listed is not None and not any(
        all(takes(core, value, definitions) for core in others if core is not True)
        for value in listed
    )


class Beside:
    """A check of further nodes in a conjunction with known ones."""

    def __init__(self, clashes: Clashes, known: list[Node]) -> None:
        spend(1 + len(known) // 4)
        self._clashes = clashes
        self._types = clashes.types_of_all(known)
        objects = [atom.kinds.objects for atom in known]
        self._objects = [one for one in objects if one is not NO_OBJECTS]
        self._required = {name for one in self._objects for name in one.required}
        self._most = _most_properties(self._objects)

    def clash(self, new: Iterable[Node]) -> bool:
        """Whether no value is an instance of all, by types or by the object's properties."""
        types = self._types & self._clashes.types_of_all(new)
        if not types:
            return True
        objects = [atom.kinds.objects for atom in new if atom.kinds.objects is not NO_OBJECTS]
        if types != {"object"} or not objects:
            return False
        required = {name for one in objects for name in one.required}
        named = {name for one in objects for name in one.properties if name in self._required}
        if len(required | self._required) > min(self._most, _most_properties(objects)):
            return True
        spend((len(required) + len(named)) * (len(objects) + len(self._objects)) // 4)
        return any(
            self._clashes.clash(
                [_of_name(one, name) for one in objects],
                [_of_name(one, name) for one in self._objects],
            )
            for name in required | named
        )


def _most_properties(objects: Iterable[Objects]) -> float:
    counts = (one.max_properties for one in objects)
    return min((count for count in counts if count is not None), default=math.inf)


def _of_name(objects: Objects, name: str) -> Core:
    """The subschema of a property; True where patterns would have to be matched."""
    if name in objects.properties:
        return objects.properties[name]
    return objects.patterns != {} or objects.additional
