"""Owns the joining of trees of whole texts, of which one may be a Both."""

from __future__ import annotations

from collections.abc import Iterable

from specguide.guided.budget import spend
from specguide.guided.regex.looks import has_look
from specguide.guided.regex.tree import (
    ANY_CHAR,
    ANY_TEXT,
    Both,
    Concat,
    Either,
    Regex,
    Repeat,
    UnsupportedRegex,
    lengths,
)
from specguide.guided.regex.writer import is_exact


def either_of(nodes: Iterable[Regex]) -> Regex:
    """A choice between the nodes. Raises UnsupportedRegex where one of them is a Both."""
    return Either(without_both(tuple(nodes)))


def without_both(nodes: tuple[Regex, ...]) -> tuple[Regex, ...]:
    """The nodes, for use inside another one. Raises UnsupportedRegex where one of them is a
    Both."""
    if any(isinstance(node, Both) for node in nodes):
        raise UnsupportedRegex("a lookahead makes the regular expression too long; make it simpler")
    return nodes


def join(*nodes: Regex) -> Regex:
    """The nodes one after the other. Repetitions beside "any text" are reduced to their least
    number."""
    spend(4 + 2 * sum(len(node.items) if isinstance(node, Concat) else 1 for node in nodes))
    items = [
        item for node in nodes for item in (node.items if isinstance(node, Concat) else (node,))
    ]
    for i, item in enumerate(items):
        if (
            isinstance(item, Repeat)
            and item != ANY_TEXT
            and ANY_TEXT in items[max(0, i - 1) : i + 2]
        ):
            items[i] = Repeat(item.item, item.least, item.least) if item.least != 1 else item.item
    joined = [
        item
        for i, item in enumerate(items)
        if not (isinstance(item, Repeat) and item.most == 0)
        and not (item == ANY_TEXT and i > 0 and items[i - 1] == ANY_TEXT)
    ]
    return joined[0] if len(joined) == 1 else _in_turn(tuple(joined))


def _in_turn(items: tuple[Regex, ...]) -> Regex:
    """The items one after the other. The items beside a Both move into its parts, where these items
    each have one length and no lookaround. Raises UnsupportedRegex where they do not."""
    place = next((i for i, item in enumerate(items) if isinstance(item, Both)), None)
    if place is None:
        return Concat(items)
    sides = items[:place], items[place + 1 :]
    if any(map(has_look, items)):
        without_both(items)
    known = [lengths(Concat(without_both(side))) for side in sides]
    both = items[place]
    assert isinstance(both, Both)
    if any(least != most for least, most in known):
        without_both(items)
    before, after = (Repeat(ANY_CHAR, int(least), int(least)) for least, _ in known)
    return Both(
        tuple(join(*sides[0], item, *sides[1]) for item in both.items),
        tuple(join(before, item, after) for item in both.but),
        both.is_exact and all(map(is_exact, (*sides[0], *sides[1]))),
    )
