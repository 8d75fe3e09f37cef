"""Owns the rules of members in a fixed order: an object's members, and an array's items of one
kind.

Each function takes `rule`, which gives the name of a new rule for a body. Members come as terms,
each with whether it is required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specguide.guided.backends.llguidance.lark_rules import together
from specguide.guided.backends.llguidance.schema_terminals import NoRules

_MAX_COUNTED_RULES = 2_000


def repeated(item: str, least: int, most: int | None, *, is_first: bool) -> str:
    """From `least` to `most` items. Each has a comma in front, except an array's first item."""
    if not is_first:
        return f'(","{item}){_times(least, most)}' if most != 0 else ""
    later = repeated(item, max(0, least - 1), None if most is None else most - 1, is_first=False)
    both = together(item, later)
    return both if least else f"({both})?"


def in_order(
    rule: Callable[[str], str], items: Sequence[tuple[str, bool]], others: str = ""
) -> str:
    """The members of an object, in which any that is not required may be missing. Each occurs once
    in the rules, together with one comma: members before the first required one with the comma
    behind them, the others with it in front.

    Each member has a rule of its own, which other objects share. That takes the library less time
    than the same text inside of one rule.

    others: any number of these may follow the items; "" for none
    """
    last = f'(","{others})*' if others else ""
    first = next((i for i, (_, is_required) in enumerate(items) if is_required), None)
    if first is None:
        ways = [item for item, _ in items] + ([together(others, last)] if others else [])
        return f"({_some_of(rule, ways)})?" if ways else ""
    before = [rule(f'({item}",")?') for item, _ in items[:first]]
    behind = [
        rule(f'","{item}' if is_required else f'(","{item})?')
        for item, is_required in items[first + 1 :]
    ]
    return together(*before, items[first][0], *behind, last)


def _some_of(rule: Callable[[str], str], members: Sequence[str]) -> str:
    """One or more of the members, by halves, so that the library has to follow few rules."""
    if len(members) == 1:
        return members[0]
    half = len(members) // 2
    head, tail = _some_of(rule, members[:half]), _some_of(rule, members[half:])
    return rule(f'{head}(","{tail})?|{tail}')


def counted(
    rule: Callable[[str], str],
    items: Sequence[tuple[str, bool]],
    extra: str,
    least: int,
    most: int | None,
) -> str:
    """The members of an object with bounds on their number, some of which may be missing: a rule
    for each position and each number of members before it.

    extra: a member that is not named, "" for none
    Raises NoRules where there is no such object, and where there would be too many rules.
    """
    greatest = least if most is None else most
    if len(items) * (greatest + 1) > _MAX_COUNTED_RULES:
        raise NoRules
    after = {}  # what may follow `num` members; a missing entry: nothing can
    for num in range(greatest + 1):
        needed = max(0, least - num)
        left = None if most is None else most - num
        if extra and left != 0:
            after[num] = repeated(extra, needed, left, is_first=num == 0)
        elif needed == 0:
            after[num] = ""
    for item, is_required in reversed(items):
        before = {}
        for num in range(greatest + 1):
            next_num = min(num + 1, greatest) if most is None else num + 1
            ways = [] if is_required or num not in after else [after[num]]
            if next_num in after:
                member = f'","{item}' if num else item
                ways.append(together(member, after[next_num]))
            if ways:
                before[num] = _either(rule, ways)
        after = before
    if 0 not in after:
        raise NoRules
    return after[0]


def _either(rule: Callable[[str], str], ways: Sequence[str]) -> str:
    """One of several terms; an empty one among them makes the whole optional."""
    terms = [way for way in ways if way]
    if not terms:
        return ""
    name = rule("|".join(dict.fromkeys(terms)))
    return name if len(terms) == len(ways) else f"({name})?"


def _times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}" if (least, most) != (0, None) else "*"
