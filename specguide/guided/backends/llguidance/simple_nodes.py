"""Owns the decision which nodes of a core schema have simple rules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.regex.tree import Both, UnsupportedRegex
from specguide.guided.regex.whole import searched
from specguide.guided.schema.core.nodes import (
    ANYTHING,
    Core,
    CoreSchema,
    Kinds,
    Node,
    Objects,
    Strings,
)
from specguide.guided.schema.core.patterns import have_common_text, pattern_matches
from specguide.guided.schema.core.walk import all_nodes


def named_children(objects: Objects, is_loose: bool) -> dict[str, Core]:
    """The schemas of an object's named properties. Raises NoRules where patterns apply to them,
    too, or a required property has no value."""
    names = (*objects.properties, *objects.required)
    patterns = objects.patterns
    if not is_loose and (
        any(pattern_matches(*pair) for pair in product(patterns, names)) or _overlap(patterns)
    ):
        raise NoRules("patternProperties")
    unnamed = {
        name: objects.additional for name in objects.required if name not in objects.properties
    }
    children = {**objects.properties, **unnamed}
    impossible = [name for name in objects.required if children[name] is False]
    if impossible and not is_loose:
        raise NoRules
    return {**children, **dict.fromkeys(impossible, True)}


def _overlap(patterns: Iterable[str]) -> bool:
    """Whether two patterns may match the same name."""
    try:
        return any(have_common_text(pair, 0, None) for pair in combinations(patterns, 2))
    except UnsupportedRegex:
        return True


def is_plain(node: Node) -> bool:
    """Whether `all_of` only adds patterns of strings."""
    return not node.all_of or all(
        isinstance(part, Node) and part == _pattern_alone(part) for part in node.all_of
    )


def _pattern_alone(node: Node) -> Node:
    return Node(node.path, Kinds(strings=Strings(pattern=node.kinds.strings.pattern)))


def must_merge(schema: CoreSchema) -> bool:
    """Whether some node plainly has no rules of its own, since it combines several constraints."""
    return any(map(_has_several_fields, all_nodes(schema)))


def _has_several_fields(node: Node) -> bool:
    num_fields = (node.values is not None) + bool(node.any_of) + (node.ref is not None)
    if num_fields and (num_fields > 1 or node.kinds != ANYTHING):
        return True
    return bool(node.all_of) and (bool(num_fields) or not is_plain(node))


def joins_patterns(schema: CoreSchema) -> bool:
    """Whether some pattern has lookaheads, which the library's own reading of schemas lacks."""
    for node in all_nodes(schema):
        pattern = node.kinds.strings.pattern
        patterns = [*node.kinds.objects.patterns, *([] if pattern is None else [pattern])]
        if any(isinstance(searched(one), Both) for one in patterns):
            return True
    return False
