"""Owns constraints of a lookahead on the text before it, and of a lookbehind on the text behind it:
they are moved out, so that each looks to one side only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from specguide.guided.budget import spend
from specguide.guided.regex.tree import (
    ANY_CHAR,
    EMPTY,
    Anchor,
    Chars,
    Concat,
    Either,
    Look,
    Regex,
    Repeat,
    UnsupportedRegex,
    concat,
    either,
    greatest_length,
    least_length,
)

_MAX_WAYS = 16
_MAX_TIMES = 4
_BEYOND = (
    "a lookahead that asks of what is before it, or a lookbehind of what is behind it, cannot be "
    "enforced"
)


def written_out(node: Regex) -> Regex:
    """A tree of the same texts. Where lookarounds reach beyond one time of a repetition, and its
    times are few, the times are written out."""
    spend()
    match node:
        case Concat(items) | Either(items):
            return type(node)(tuple(map(written_out, items)))
        case Repeat(item, least, most) if has_look(item):
            item = written_out(item)
            if most is None or not 1 < most <= _MAX_TIMES or stays_inside(item):
                return Repeat(item, least, most)
            more: Regex = EMPTY
            for _ in range(most - least):
                more = Repeat(concat(item, more), 0, 1)
            return concat(*[item] * least, more)
    return node


def one_sided(node: Regex, *, at_start: bool) -> Regex:
    """A tree of the same texts in which lookaheads do not depend on the text before them, nor
    lookbehinds on the text behind them.

    at_start: whether the tree is at the start of the text; lookaheads there stay, since nothing is
              before them

    Raises UnsupportedRegex where the two sides cannot be separated.
    """
    spend()
    match node:
        case Look(behind=behind) if behind or not at_start:
            return _one_sided(node)
        case Concat(items):
            parts = list[Regex]()
            for item in items:
                parts.append(one_sided(item, at_start=at_start))
                at_start = at_start and isinstance(item, (Look, Anchor))
            return Concat(tuple(parts))
        case Either(items):
            return Either(tuple(one_sided(item, at_start=at_start) for item in items))
        case Repeat(Concat((*looks, Chars())), _, None) if at_start and _are_ahead(looks):
            return node  # they apply to the whole text
        case Repeat(item, least, most):
            return Repeat(one_sided(item, at_start=at_start and most == 1), least, most)
    return node


def _are_ahead(looks: list[Regex]) -> bool:
    return all(isinstance(look, Look) and not look.behind for look in looks)


def _one_sided(look: Look) -> Regex:
    """A lookahead or lookbehind, with its constraints on the other side moved beside it."""
    ways = list(islice(_ways(one_sided(look.node, at_start=False), look.behind), _MAX_WAYS + 1))
    if len(ways) > _MAX_WAYS:
        raise UnsupportedRegex(_BEYOND)
    if not look.negative:
        return either(concat(*outer, replace(look, node=rest)) for outer, rest in ways)
    return concat(
        *(either((*map(_failed, outer), replace(look, node=rest))) for outer, rest in ways)
    )


def _failed(look: Regex) -> Regex:
    """Matches where an anchor, a lookahead or a lookbehind does not match."""
    if isinstance(look, Look):
        return replace(look, negative=not look.negative)
    assert isinstance(look, Anchor)
    return Look(ANY_CHAR, negative=False, behind=look.at_start)


def _ways(node: Regex, behind: bool) -> Iterator[tuple[tuple[Regex, ...], Regex]]:
    """The ways to match the content of a lookaround, each with its constraints on the other side.
    Raises UnsupportedRegex where such a constraint is not at the edge."""
    items = node.items if isinstance(node, Concat) else (node,)
    spend(1 + len(items))
    if not items or _stays(node, behind):
        yield (), node
        return
    edge, rest = (items[-1], items[:-1]) if behind else (items[0], items[1:])
    if isinstance(edge, (Concat, Either)):
        options = edge.items if isinstance(edge, Either) else (edge,)
        for option in options:
            whole = concat(*rest, option) if behind else concat(option, *rest)
            yield from _ways(whole, behind)
    elif isinstance(edge, (Look, Anchor)):
        to_other_side = (edge.behind if isinstance(edge, Look) else edge.at_start) != behind
        for outer, inside in _ways(concat(*rest), behind):
            if to_other_side:
                yield (edge, *outer), inside
            else:
                yield outer, concat(inside, edge) if behind else concat(edge, inside)
    else:
        raise UnsupportedRegex(_BEYOND)


def _stays(node: Regex, behind: bool) -> bool:
    """Whether the content of a lookaround certainly does not depend on the other side."""
    if has_anchor(node, not behind):
        return False
    return stays_inside(node, *((math.inf, 0) if behind else (0, math.inf)))


def stays_inside(node: Regex, before: float = 0, after: float = 0) -> bool:
    """Whether all lookarounds inside a tree certainly see only what the tree matches, and `before`
    and `after` characters around that."""
    if isinstance(node, Repeat):
        beside = (before, after)
        if node.most != 1:
            before, after = (most if most == math.inf else 0 for most in beside)
        return stays_inside(node.item, before, after)
    if isinstance(node, Either):
        return all(stays_inside(item, before, after) for item in node.items)
    items = node.items if isinstance(node, Concat) else (node,)
    shortest = [0 if has_look(item) else least_length(item) for item in items]
    for i, item in enumerate(items):
        known = before + sum(shortest[:i]), after + sum(shortest[i + 1 :])
        if isinstance(item, Look):
            if _reach(item.node) > known[0 if item.behind else 1]:
                return False
        elif has_look(item) and not stays_inside(item, *known):
            return False
    return True


def _reach(node: Regex) -> float:
    """Most characters of a lookaround's content."""
    return greatest_length(node) if is_plain(node) else math.inf


def is_plain(node: Regex) -> bool:
    """Whether it does not depend on what is around its text."""
    return not (has_look(node) or has_anchor(node, True) or has_anchor(node, False))


def has_anchor(node: Regex, at_start: bool) -> bool:
    left = [node]
    for one in left:  # it grows
        if isinstance(one, (Concat, Either)):
            left += one.items
        elif isinstance(one, Repeat):
            left.append(one.item)
        elif isinstance(one, Anchor) and one.at_start == at_start:
            return True
    spend(1 + len(left) // 2)
    return False


def has_look(node: Regex, *, behind: bool = False) -> bool:
    """Whether a tree has a lookaround inside; `behind`: a lookbehind."""
    match node:
        case Concat(items) | Either(items):
            return any(has_look(item, behind=behind) for item in items)
        case Repeat(item):
            return has_look(item, behind=behind)
    return isinstance(node, Look) and node.behind >= behind
