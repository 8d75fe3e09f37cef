"""Owns the rules of an object's members in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from specguide.guided.backends.llguidance.lark_rules import together
from specguide.guided.budget import spend


def any_order(rule: Callable[[str], str], others: Sequence[str], tracked: Sequence[str]) -> str:
    """The members of an object in any order, as a term: each tracked one once, the others any
    number of times. There is a rule for each set of tracked members that are still to come.

    rule: gives the name of a new rule for a body
    """
    other = rule("|".join(others)) if others else ""
    more = f'(","{other})*' if other else ""
    after = {frozenset[str](): more}  # what follows a member, by the tracked ones still to come
    for size in range(1, len(tracked) + 1):
        for names in combinations(tracked, size):
            spend(size)
            left = frozenset(names)
            ways = "|".join(together(f'","{name}', after[left - {name}]) for name in names)
            after[left] = rule(f"{more}({ways})")
    every = frozenset(tracked)
    first = [together(name, after[every - {name}]) for name in tracked]
    first += [together(other, after[every])] if other else []
    if not first:
        return ""
    return rule("|".join(first)) if tracked else f"({rule('|'.join(first))})?"
