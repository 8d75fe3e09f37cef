"""Owns the leaving out of ways to fail a subschema that a backend would not enforce."""

from __future__ import annotations

from dataclasses import replace

from specguide.guided.budget import spend
from specguide.guided.schema.core.capabilities import Capabilities
from specguide.guided.schema.core.enforce import unenforced
from specguide.guided.schema.core.nodes import (
    Core,
    CoreSchema,
    Node,
    constrains_more_than_types,
    num_constraints,
)
from specguide.guided.schema.core.walk import with_children


def with_enforced_ways(schema: CoreSchema, able: Capabilities) -> CoreSchema:
    """The schema without the ways to fail a subschema that the backend does not enforce. All of
    them stay where none would be left, or none that constrains more than types."""
    ways = _Ways(able)
    definitions = {name: ways.enforced(core) for name, core in schema.definitions.items()}
    return replace(schema, root=ways.enforced(schema.root), definitions=definitions)


class _Ways:
    def __init__(self, able: Capabilities) -> None:
        self._able = able
        self._results: dict[int, tuple[Core, Core]] = {}  # by identity; with the node, to keep it

    def enforced(self, core: Core) -> Core:
        """The node with fewer ways; the node itself where all stay."""
        if isinstance(core, bool):
            return core
        if id(core) not in self._results:
            spend(2)
            node = with_children(core, self.enforced)
            node = core if node == core else node
            self._results[id(core)] = core, self._chosen(node) if node.is_failure else node
        return self._results[id(core)][1]

    def _chosen(self, node: Node) -> Core:
        enforced = tuple(way for way in node.any_of if self._is_enforced(way))
        if len(enforced) == len(node.any_of) or not any(map(constrains_more_than_types, enforced)):
            return node
        if len(enforced) > 1:
            return replace(node, any_of=enforced)
        if num_constraints(node) == 1:
            return enforced[0]
        return replace(node, any_of=(), all_of=(*node.all_of, *enforced), is_failure=False)

    def _is_enforced(self, way: Core) -> bool:
        return next(unenforced(CoreSchema(way, {}), self._able), None) is None
