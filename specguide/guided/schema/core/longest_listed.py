"""Owns the length of the longest text that a node of a core schema lists."""

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


def longest_listed(node: Node) -> int:
    """Returns the length, in characters, of the longest value or name in a node, or of the longest
    string that its pattern matches; 0 where there is none."""
    listed = [*(node.values or ()), *node.kinds.objects.properties]
    spend(len(listed))
    texts = (json.dumps(value, ensure_ascii=False) for value in listed)
    return max([_longest_match(node.kinds.strings.pattern), *map(len, texts)])


@lru_cache(maxsize=128)
def _longest_match(pattern: str | None) -> int:
    """An upper bound, with each endless repetition taken once more than it must be. For very long
    strings, the length of the pattern itself."""
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
