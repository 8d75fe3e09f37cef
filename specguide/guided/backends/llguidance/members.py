"""Owns the rules of members in their order: those of an object, and items of one kind of an array.

Each function takes `rule`, which gives the name of a rule of its own for a text. Members come as
terms, each with whether it is required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specguide.guided.backends.llguidance.schema_terminals import NoRules

_MAX_COUNTED_RULES = 2_000
_LONG = 200  # characters


def repeated(item: str, least: int, most: int | None, *, is_first: bool) -> str:
    """From `least` to `most` items, each but the first of all behind a comma."""
    if not is_first:
        return f'("," {item}){_times(least, most)}' if most != 0 else ""
    later = repeated(item, max(0, least - 1), None if most is None else most - 1, is_first=False)
    return f"{item} {later}" if least else f"({item} {later})?"


def in_order(
    rule: Callable[[str], str], items: Sequence[tuple[str, bool]], others: str = ""
) -> str:
    """The members of an object, of which any may be left out that is not required.

    others: any number of these may follow the items; "" for none
    """
    num_before = next((i for i, (_, is_required) in enumerate(items) if is_required), None)
    last = f'("," {others})*' if others else ""
    rest = last  # the members from a place on, where there was one before
    follows: list[str] = []  # what may stand there where there was none
    for i, (item, is_required) in reversed(list(enumerate(items))):
        follows.append(_together(item, rest))
        if i:
            rest = _together(f'"," {item}' if is_required else f'("," {item})?', rest)
            stands_once = num_before == 0 or (num_before is not None and i > num_before + 1)
            rest = rest if stands_once and len(rest) < _LONG else rule(rest)
    follows.reverse()
    first = follows[num_before] if num_before is not None else _together(others, last)
    first = f"({first})?" if first and num_before is None else first
    for one in reversed(follows[:num_before]):
        first = _or_else(rule(one), first)
        first = first if len(first) < _LONG else _shortened(rule, first)
    return first


def counted(
    rule: Callable[[str], str],
    items: Sequence[tuple[str, bool]],
    extra: str,
    least: int,
    most: int | None,
) -> str:
    """The members of an object that are counted, some of which may be left out: a rule for each
    place and number of members before it.

    extra: a member that is not named, "" for none
    Raises NoRules where there is no such object, and where there would be too many rules.
    """
    greatest = least if most is None else most
    if len(items) * (greatest + 1) > _MAX_COUNTED_RULES:
        raise NoRules
    after = {}  # what may follow so many members; not there: nothing
    for num in range(greatest + 1):
        needed, left = max(0, least - num), None if most is None else most - num
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
                member = f'"," {item}' if num else item
                ways.append(f"{member} {after[next_num]}")
            if ways:
                before[num] = _either(rule, ways)
        after = before
    if 0 not in after:
        raise NoRules
    return after[0]


def _either(rule: Callable[[str], str], ways: Sequence[str]) -> str:
    """One of some terms, of which one may be nothing."""
    said = [way.strip() for way in ways if way.strip()]
    if not said:
        return ""
    name = rule(" | ".join(dict.fromkeys(said)))
    return name if len(said) == len(ways) else f"({name})?"


def _together(*parts: str) -> str:
    """Terms behind each other, of which some may be nothing."""
    return " ".join(part for part in parts if part)


def _shortened(rule: Callable[[str], str], term: str) -> str:
    return f"({rule(term[:-1])})?" if term.endswith("?") else rule(term)


def _or_else(item: str, others: str) -> str:
    """An item or the others, or nothing where these may be nothing."""
    if not others:
        return f"({item})?"
    return f"({item} | {others[:-1]})?" if others.endswith("?") else f"({item} | {others})"


def _times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}" if (least, most) != (0, None) else "*"
