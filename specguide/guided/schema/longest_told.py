"""Owns the question how long the texts are that a node of a core schema lists."""

from __future__ import annotations

import json

from specguide.guided.budget import spend
from specguide.guided.regex.tree import UnsupportedRegex
from specguide.guided.schema.nodes import Node
from specguide.guided.schema.patterns import pattern_automaton


def longest_told(node: Node) -> int:
    """Characters of the longest value or name that a node lists itself, or of the longest string of
    a pattern that matches few; 0 where there is none."""
    listed = [*(node.values or ()), *node.kinds.objects.properties]
    spend(len(listed))
    texts = (json.dumps(value, ensure_ascii=False) for value in listed)
    return max([_longest_match(node.kinds.strings.pattern), *map(len, texts)])


def _longest_match(pattern: str | None) -> int:
    """At most: a text that visits no state twice. Another one of an endless pattern, too, is no
    more than so much longer than the shortest."""
    if pattern is None:
        return 0
    try:
        return len(pattern_automaton(pattern).rows)
    except UnsupportedRegex:
        return len(pattern)
