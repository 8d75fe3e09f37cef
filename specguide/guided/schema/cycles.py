"""Owns the check that no definition of a core schema leads back to itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specguide.guided.budget import spend
from specguide.guided.schema.nodes import Core, Node, refuse


def check_cycles(core: Core, definitions: Mapping[str, Core]) -> None:
    """Raises UnsupportedGuide where a definition leads back to itself before it has asked for
    anything."""
    finished: set[str] = set()
    for root in (core, *definitions.values()):
        on_the_way: dict[str, None] = {}
        ways = [_leads_to(root)]  # of the root, and of each definition on the way
        while ways:
            name, reference = next(ways[-1], (None, None))
            if name is None or reference is None:
                ways.pop()
                if ways:
                    finished.add(on_the_way.popitem()[0])
            elif name in on_the_way:
                raise refuse("$ref", reference.path, "it leads back to itself")
            elif name not in finished:
                on_the_way[name] = None
                ways.append(_leads_to(definitions[name]))


def _leads_to(core: Core) -> Iterator[tuple[str, Node]]:
    """The definitions that must hold right where the core does, each with the reference to it."""
    spend()
    if isinstance(core, Node):
        if core.ref is not None:
            yield core.ref, core
        for child in (*core.any_of, *core.all_of):
            yield from _leads_to(child)
