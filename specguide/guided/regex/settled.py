"""Owns lookaheads and lookbehinds of one character that the neighbouring characters decide: right
behind a letter, a word boundary only requires that no word character follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specguide.guided.budget import spend
from specguide.guided.regex.charset import EVERYTHING, CharSet, intersect
from specguide.guided.regex.tree import (
    EMPTY,
    NOTHING,
    Anchor,
    Chars,
    Concat,
    Either,
    Look,
    Regex,
    Repeat,
    concat,
    either,
)


@dataclass(frozen=True)
class _Side:
    """What may be on one side of a position: a character of one of some sets, or (`is_edge`) no
    character."""

    chars: frozenset[CharSet]
    is_edge: bool

    def __or__(self, other: _Side) -> _Side:
        return _Side(self.chars | other.chars, self.is_edge or other.is_edge)

    def over(self, nearer: _Side) -> _Side:
        """This side with `nearer` in between; the edge of `nearer` says that it may be empty."""
        return self | nearer if nearer.is_edge else nearer


ALONE = _Side(frozenset(), True)
"""No character: the edge of the text."""
_ANY = _Side(frozenset([CharSet(EVERYTHING, EVERYTHING)]), True)


def settled(node: Regex, before: _Side = _ANY, after: _Side = _ANY) -> Regex:
    """A tree of the same texts, without lookarounds that certainly match, and without parts whose
    lookaround certainly fails."""
    spend(2)
    match node:
        case Concat(items):
            return concat(*_in_turn(items, before, after))
        case Either(items):
            return either(settled(item, before, after) for item in items)
        case Repeat(item, least, most):
            if most is None or most > 1:
                before, after = before | _edge(item, at_start=False), after | _edge(item)
            once = settled(item, before, after)
            return Repeat(once, least, most) if once != NOTHING else NOTHING if least else EMPTY
        case Look(Chars(chars), negative, behind):
            holds = _holds(chars, before if behind else after)
            return node if holds is None else EMPTY if holds != negative else NOTHING
        case Look(inside, behind=behind):
            sides = (_ANY, after) if behind else (before, _ANY)
            return replace(node, node=settled(inside, *sides))
    return node


def _in_turn(items: tuple[Regex, ...], before: _Side, after: _Side) -> list[Regex]:
    sides = []
    for item in reversed(items):
        sides.append(after)
        after = ALONE if item == Anchor(False) else after.over(_edge(item))
    found = []
    for item, behind in zip(items, reversed(sides), strict=True):
        spend(len(before.chars) + len(behind.chars))
        found.append(settled(item, before, behind))
        before = ALONE if item == Anchor(True) else before.over(_edge(item, at_start=False))
    return found


def _edge(node: Regex, *, at_start: bool = True) -> _Side:
    """The characters with which a tree's texts may begin, or end; its edge says that a text may be
    empty."""
    spend(2)
    match node:
        case Chars(chars):
            return _Side(frozenset([chars]), False)
        case Concat(items):
            found = ALONE
            for item in items if at_start else reversed(items):
                found = _Side(found.chars, False) | _edge(item, at_start=at_start)
                if not found.is_edge:
                    break
            return found
        case Either(items):
            sides = [_edge(item, at_start=at_start) for item in items]
            found_chars = frozenset(one for side in sides for one in side.chars)
            return _Side(found_chars, any(side.is_edge for side in sides))
        case Repeat(item, least, most) if most != 0:
            once = _edge(item, at_start=at_start)
            return _Side(once.chars, once.is_edge or least == 0)
    return ALONE


def _holds(chars: CharSet, side: _Side) -> bool | None:
    """Whether a character of a set is certainly on a side (True), or certainly not (False); else
    None."""
    if not side.is_edge and all(_is_within(one, chars) for one in side.chars):
        return True
    return False if all(_is_within(one, ~chars) for one in side.chars) else None


def _is_within(part: CharSet, whole: CharSet) -> bool:
    """Whether one set is within the other, in all dialects."""
    return part == whole or intersect(part.outer, whole.inner) == part.outer
