"""Owns the check that a backend enforces a core schema, keyword by keyword."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.core.capabilities import Capabilities, Level, Support
from specguide.guided.schema.core.keywords import Value, keywords
from specguide.guided.schema.core.nodes import Core, CoreSchema, Node, shared_parts

_OF_NODES = frozenset(
    (
        *("anyOf", "allOf", "prefixItems", "items"),
        *("properties", "patternProperties", "additionalProperties"),
    )
)
"""Keywords of the core whose values contain nodes."""
_REASONS = {Level.IGNORED: "the library would ignore it", Level.REFUSED: "the library refuses it"}


@dataclass(frozen=True)
class Unenforced:
    """A keyword that a backend would not enforce, the JSON pointer to its subschema in the user's
    schema, and the reason."""

    keyword: str
    path: str
    reason: str


def unenforced(schema: CoreSchema, capabilities: Capabilities) -> Iterator[Unenforced]:
    """Yields what a backend of these capabilities would not enforce of a core schema. Nodes with
    the same parts are reported once."""
    doubtful = capabilities.doubtful
    todo: list[Core | tuple[Node, str]] = [schema.root, *schema.definitions.values()]
    todo.reverse()
    seen: set[object] = set()
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            node, keyword = item
            with at_work(keyword, node.path):
                yield from _doubts(node, keyword, doubtful[keyword])
        elif not isinstance(item, bool):
            parts = shared_parts(item) or id(item)
            if parts not in seen:
                seen |= {parts, id(item)}
                inner = reversed(_parts(item, doubtful))
                todo += [part for part in inner if id(part) not in seen]


def _parts(node: Node, doubtful: Mapping[str, Support]) -> list[Core | tuple[Node, str]]:
    """The child nodes of a node, and its keywords that may not be enforced, in the order of its
    keywords."""
    values = keywords(node)
    spend(len(values))
    parts: list[Core | tuple[Node, str]] = []
    for keyword, value in values.items():
        if keyword in doubtful:
            parts.append((node, keyword))
        if keyword in _OF_NODES:
            parts += _nodes_in(value)
    return parts


def _nodes_in(value: Value) -> Iterable[Core]:
    if isinstance(value, (Node, bool)):
        return (value,)
    return value if isinstance(value, tuple) else value.values()


def _doubts(node: Node, keyword: str, support: Support) -> Iterator[Unenforced]:
    if support.level in _REASONS:
        yield Unenforced(keyword, node.path, _REASONS[support.level])
    reason = support.unless(node) if support.unless is not None else None
    if reason is not None:
        yield Unenforced(keyword, node.path, reason)
