"""Owns the texts of a regular expression that begin, or end, with a character of a set: those that
a lookahead or lookbehind of one character allows."""

from __future__ import annotations

from specguide.guided.budget import spend
from specguide.guided.regex.charset import CharSet
from specguide.guided.regex.looks import has_look
from specguide.guided.regex.tree import (
    EMPTY,
    NOTHING,
    Chars,
    Concat,
    Either,
    Look,
    Regex,
    Repeat,
    concat,
    either,
    least_length,
)

_MAX_WAYS = 8


def passed(node: Regex, look: Look) -> Regex | None:
    """The texts of a tree without anchors that a lookahead at its start, or a lookbehind at its
    end, allows; None where that is not simple. Beside a lookbehind the tree may have lookaheads,
    which stay, if it does not match the empty text."""
    if not isinstance(look.node, Chars):
        return None
    seen = look.node.chars
    edged = _edged(node, ~seen if look.negative else seen, at_start=not look.behind)
    if edged is not None and look.negative and least_length(node) == 0:
        return either((EMPTY, edged))
    return edged


def _edged(node: Regex, chars: CharSet, *, at_start: bool) -> Regex | None:
    """The texts of a tree whose first or last character is in a set; None where that is not
    simple."""
    spend(8)
    match node:
        case Chars(allowed):
            common = allowed & chars
            return Chars(common) if common.outer else NOTHING
        case Concat(items):
            return _edged_sequence(items, chars, at_start=at_start)
        case Either(items):
            parts = [_edged(item, chars, at_start=at_start) for item in items]
            edged = [part for part in parts if part is not None]
            return either(edged) if len(edged) == len(parts) else None
        case Repeat(item, least, most) if most != 0 and least_length(item) > 0:
            others = Repeat(item, max(0, least - 1), None if most is None else most - 1)
            sequence = (item, others) if at_start else (others, item)
            return _edged_sequence(sequence, chars, at_start=at_start)
    return None


def _edged_sequence(items: tuple[Regex, ...], chars: CharSet, *, at_start: bool) -> Regex | None:
    ways: list[Regex] = []
    ahead: tuple[Regex, ...] = ()  # lookaheads at the end
    while items and len(ways) < _MAX_WAYS:
        spend(len(items) // 4)
        edge, rest = (items[0], items[1:]) if at_start else (items[-1], items[:-1])
        if isinstance(edge, Look):
            items, ahead = rest, (edge, *ahead)
            continue
        part = _edged(edge, chars, at_start=at_start)
        if part is None:
            return None
        ways.append(concat(part, *rest) if at_start else concat(*rest, part, *ahead))
        if least_length(edge) > 0:
            return either(ways)
        if has_look(edge):  # it asks something even where it matches the empty text
            return None
        items = rest  # the other case: the edge is empty
    return None if items else either(ways)
