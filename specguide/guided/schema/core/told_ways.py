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
    num_asks,
    says_more_than_types,
)
from specguide.guided.schema.core.walk import with_children


def with_told_ways(schema: CoreSchema, able: Capabilities) -> CoreSchema:
    """The schema with those ways alone to fail a subschema that a backend enforces. Where none of
    them is left, or values are told by their types alone then, all of them stay."""
    ways = _Ways(able)
    definitions = {name: ways.told(core) for name, core in schema.definitions.items()}
    return replace(schema, root=ways.told(schema.root), definitions=definitions)


class _Ways:
    def __init__(self, able: Capabilities) -> None:
        self._able = able
        self._found: dict[int, tuple[Core, Core]] = {}  # by identity; with the node, to keep it

    def told(self, core: Core) -> Core:
        """The node with fewer ways; the node itself where all stay."""
        if isinstance(core, bool):
            return core
        if id(core) not in self._found:
            spend(2)
            node = with_children(core, self.told)
            node = core if node == core else node
            self._found[id(core)] = core, self._chosen(node) if node.is_failure else node
        return self._found[id(core)][1]

    def _chosen(self, node: Node) -> Core:
        kept = tuple(way for way in node.any_of if self._is_enforced(way))
        if len(kept) == len(node.any_of) or not any(map(says_more_than_types, kept)):
            return node
        if len(kept) > 1:
            return replace(node, any_of=kept)
        if num_asks(node) == 1:
            return kept[0]
        return replace(node, any_of=(), all_of=(*node.all_of, *kept), is_failure=False)

    def _is_enforced(self, way: Core) -> bool:
        return next(unenforced(CoreSchema(way, {}), self._able), None) is None
