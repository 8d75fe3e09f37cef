"""Owns which nodes of a core schema have simple rules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.budget import spend
from specguide.guided.regex.tree import Both, UnsupportedRegex
from specguide.guided.regex.whole import searched
from specguide.guided.schema.nodes import (
    ANYTHING,
    Core,
    CoreSchema,
    Kinds,
    Node,
    Objects,
    Strings,
    children,
)
from specguide.guided.schema.patterns import have_common_text, pattern_matches


def named_children(asked: Objects, is_loose: bool) -> dict[str, Core]:
    """What an object's properties are that have a name. Raises NoRules where patterns speak of
    them, too, or a property that must be there has no value."""
    names = (*asked.properties, *asked.required)
    patterns = asked.patterns
    if not is_loose and (
        any(pattern_matches(*pair) for pair in product(patterns, names)) or _overlap(patterns)
    ):
        raise NoRules("patternProperties")
    unnamed = {name: asked.additional for name in asked.required if name not in asked.properties}
    children = {**asked.properties, **unnamed}
    impossible = [name for name in asked.required if children[name] is False]
    if impossible and not is_loose:
        raise NoRules
    return {**children, **dict.fromkeys(impossible, True)}


def _overlap(patterns: Iterable[str]) -> bool:
    """Whether two patterns may match one name."""
    try:
        return any(have_common_text(pair, 0, None) for pair in combinations(patterns, 2))
    except UnsupportedRegex:
        return True


def is_plain(node: Node) -> bool:
    """Whether `all_of` is there for more patterns of a string alone."""
    return not node.all_of or (
        node.kinds.types == ("string",)
        and all(isinstance(part, Node) and part == _pattern_alone(part) for part in node.all_of)
    )


def _pattern_alone(node: Node) -> Node:
    return Node(node.path, Kinds(strings=Strings(pattern=node.kinds.strings.pattern)))


def must_merge(schema: CoreSchema) -> bool:
    """Whether some node plainly has no rules of its own, since it asks several things at once."""
    todo: list[Core] = [schema.root, *schema.definitions.values()]
    while todo:
        core = todo.pop()
        spend()
        if isinstance(core, bool):
            continue
        asked = (core.values is not None) + bool(core.any_of) + (core.ref is not None)
        if asked and (asked > 1 or core.all_of or core.kinds != ANYTHING):
            return True
        if core.all_of and not is_plain(core):
            return True
        todo += core.any_of if asked else children(core)
    return False


def joins_patterns(schema: CoreSchema) -> bool:
    """Whether some pattern is written with lookaheads, which the library's own reading of schemas
    lacks."""
    todo: list[Core] = [schema.root, *schema.definitions.values()]
    seen: set[int] = set()
    for core in todo:  # which grows
        if isinstance(core, bool) or id(core) in seen:
            continue
        spend()
        seen.add(id(core))
        pattern = core.kinds.strings.pattern
        patterns = [*core.kinds.objects.patterns, *([] if pattern is None else [pattern])]
        if any(isinstance(searched(one), Both) for one in patterns):
            return True
        todo += (*children(core), *core.all_of)
    return False
