"""Owns conditions on which a backend does not enforce a keyword of a core node, each with its
reason; those of one backend alone stand with its capabilities."""

from __future__ import annotations

from specguide.guided.schema.nodes import Node, Objects


def is_closed(asked: Objects) -> bool:
    """Whether there are no other properties than the named ones."""
    return asked.additional is False and not asked.patterns


def unnamed_may_repeat(node: Node) -> str | None:
    """Libraries let properties that are named nowhere repeat, and count them every time."""
    asked = node.kinds.objects
    if (asked.min_properties or 0) - len(asked.required) <= 1 or is_closed(asked):
        return None
    return "properties that are not named may repeat, and each time they are counted"
