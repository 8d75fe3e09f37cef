"""Owns the question how long the texts are that a node of a core schema lists."""

from __future__ import annotations

import json
import math
from functools import lru_cache

from specguide.guided.budget import spend
from specguide.guided.regex.automaton import MAX_STATES
from specguide.guided.regex.tree import Both, UnsupportedRegex, greatest_length
from specguide.guided.regex.whole import searched
from specguide.guided.schema.core.nodes import Node
from specguide.guided.schema.core.patterns import pattern_automaton


def longest_told(node: Node) -> int:
    """Characters of the longest value or name that a node lists itself, or of the longest string of
    a pattern that matches few; 0 where there is none."""
    listed = [*(node.values or ()), *node.kinds.objects.properties]
    spend(len(listed))
    texts = (json.dumps(value, ensure_ascii=False) for value in listed)
    return max([_longest_match(node.kinds.strings.pattern), *map(len, texts)])


@lru_cache(maxsize=128)
def _longest_match(pattern: str | None) -> int:
    """At most: a text that repeats once more than it must what may repeat without end. Where such
    texts are very long, one is as long as the pattern itself."""
    if pattern is None:
        return 0
    try:
        node = searched(pattern)
        if isinstance(node, Both):
            return len(pattern_automaton(pattern).rows)
        longest = greatest_length(node, 1)
    except UnsupportedRegex:
        longest = math.inf
    return int(longest) if longest <= MAX_STATES else len(pattern)
