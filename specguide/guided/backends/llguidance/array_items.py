"""Owns the rules of an array's items."""

from __future__ import annotations

from collections.abc import Callable

from specguide.guided.backends.llguidance.lark_rules import together
from specguide.guided.backends.llguidance.members import repeated
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.schema.core.nodes import Arrays, Core


def array_items(rule: Callable[[str], str], within: Callable[[Core], str], arrays: Arrays) -> str:
    """The items of an array, as a term. Raises NoRules where no array has that many.

    rule:   gives the name of a new rule for a body
    within: gives the term of an item
    """
    least = arrays.min_items or 0
    most = arrays.max_items
    if arrays.rest is False:
        most = min(len(arrays.prefix), len(arrays.prefix) if most is None else most)
    if False in arrays.prefix or (most is not None and least > most):
        raise NoRules
    prefix = arrays.prefix[:most]
    tail = ""
    if most is None or most > len(prefix):
        fewest = max(0, least - len(prefix))
        greatest = None if most is None else most - len(prefix)
        tail = repeated(within(arrays.rest), fewest, greatest, is_first=not prefix)
    for i in range(len(prefix) - 1, -1, -1):
        item = within(prefix[i])
        tail = together(f'","{item}' if i else item, tail)
        if i >= least:
            tail = f"({rule(tail)})?"
    return tail
