"""Owns the question whether a backend enforces all of a core schema, asked keyword by keyword."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.capabilities import Capabilities, Level, Support
from specguide.guided.schema.keywords import Value, keywords
from specguide.guided.schema.nodes import Core, CoreSchema, Node

_OF_NODES = frozenset(
    (
        *("anyOf", "allOf", "prefixItems", "items"),
        *("properties", "patternProperties", "additionalProperties"),
    )
)
"""Keywords of the core in which there are nodes."""


@dataclass(frozen=True)
class Unenforced:
    """A keyword that a backend would not enforce, the JSON pointer of its subschema in the original
    schema, and why."""

    keyword: str
    path: str
    reason: str


def unenforced(schema: CoreSchema, capabilities: Capabilities) -> Iterator[Unenforced]:
    """What a backend of these capabilities would not enforce of a core schema."""
    for core in (schema.root, *schema.definitions.values()):
        yield from _unenforced(core, capabilities)


def _unenforced(core: Core, capabilities: Capabilities) -> Iterator[Unenforced]:
    if isinstance(core, bool):
        return
    for keyword, value in keywords(core).items():
        spend()
        if keyword != "not":  # numbers that are no integers, for which there are rules of our own
            support = capabilities.keywords[keyword]
            if support.level is not Level.ENFORCED or support.unless is not None:
                with at_work(keyword, core.path):
                    yield from _doubts(core, keyword, support)
        for child in _nodes_in(value) if keyword in _OF_NODES else ():
            yield from _unenforced(child, capabilities)


def _nodes_in(value: Value) -> Iterator[Node]:
    inside = value.values() if isinstance(value, Mapping) else value
    for child in inside if isinstance(inside, Iterable) else (inside,):
        if isinstance(child, Node):
            yield child


def _doubts(node: Node, keyword: str, support: Support) -> Iterator[Unenforced]:
    if support.level in (Level.IGNORED, Level.REFUSED):
        yield Unenforced(keyword, node.path, support.level.value)
    reason = support.unless(node) if support.unless is not None else None
    if reason is not None:
        yield Unenforced(keyword, node.path, reason)
