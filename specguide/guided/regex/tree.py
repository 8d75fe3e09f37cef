"""Owns the tree of a regular expression: its meaning, independent of the dialect in which it was
written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from specguide.guided.budget import kept
from specguide.guided.quick import hashed_once, quick
from specguide.guided.regex.charset import EVERYTHING, CharSet, exactly

MAX_CHARS = 1 << 16
"""Most characters of a regular expression that is read or written."""
TOO_LONG = "an intersection of regular expressions is too long to write down; make them simpler"


class RegexError(ValueError):
    """A regular expression is malformed."""


class UnsupportedRegex(RegexError):
    """A regular expression uses a feature that no backend enforces."""


@hashed_once
@quick
@dataclass(frozen=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@hashed_once
@quick
@dataclass(frozen=True)
class Concat:
    """Its items one after the other; without items: the empty string."""

    items: tuple[Regex, ...]


@hashed_once
@quick
@dataclass(frozen=True)
class Either:
    """One of its items; without items: it matches nothing."""

    items: tuple[Regex, ...]


@hashed_once
@quick
@dataclass(frozen=True)
class Repeat:
    """`least` to `most` times its item; most None: no limit."""

    item: Regex
    least: int
    most: int | None


@hashed_once
@quick
@dataclass(frozen=True)
class Anchor:
    """The start (`at_start`) or the end of the text."""

    at_start: bool


@hashed_once
@quick
@dataclass(frozen=True)
class Look:
    """A lookahead: the text behind must begin with `node`, or (`negative`) must not. A lookbehind
    (`behind`): the text before must end with it, or must not."""

    node: Regex
    negative: bool
    behind: bool


@hashed_once
@quick
@dataclass(frozen=True)
class Both:
    """The whole texts that all of `items` match, and none of `but`. It replaces a tree that would
    be too large, and is in no node but another Both.

    is_exact: all dialects agree on these texts
    """

    items: tuple[Regex, ...]
    but: tuple[Regex, ...]
    is_exact: bool


@hashed_once
@quick
@dataclass(frozen=True)
class Group:
    """Matches `item`; a Reference refers to it by `number`. Trees that `parse` returns contain
    neither."""

    item: Regex
    number: int


@hashed_once
@quick
@dataclass(frozen=True)
class Reference:
    """The text that a Group has matched, in any case if `ignores_case`."""

    number: int
    ignores_case: bool


Regex = Chars | Concat | Either | Repeat | Anchor | Look | Both | Group | Reference

EMPTY = Concat(())
NOTHING = Either(())
ANY_CHAR = Chars(CharSet(EVERYTHING, EVERYTHING))
ANY_TEXT = Repeat(ANY_CHAR, 0, None)


@kept
def least_length(node: Regex) -> float:
    """Length of the shortest text that a tree matches, ignoring lookarounds and anchors; infinity
    where it matches nothing. Raises TypeError for a Both."""
    match node:
        case Chars(chars):
            return 1 if chars.inner else math.inf
        case Look() | Anchor():
            return 0
        case Concat(items):
            return sum(map(least_length, items))
        case Either(items):
            return min(map(least_length, items), default=math.inf)
        case Repeat(item, least, _):
            return least * least_length(item) if least else 0
    raise TypeError(f"{type(node).__name__} matches no text by itself")


def lengths(node: Regex) -> tuple[float, float]:
    """Lengths of the shortest and of the longest text that a tree without anchors may match; for a
    Both only bounds. Infinity where it matches nothing, or where there is no longest text."""
    if isinstance(node, Both):
        bounds = list(map(lengths, node.items))
        return max(least for least, _ in bounds), min(most for _, most in bounds)
    return least_length(node), greatest_length(node)


def greatest_length(node: Regex, more: float = math.inf) -> float:
    """Length of the longest text that a tree without anchors may match, where unlimited repetitions
    are repeated at most `more` times beyond their least number. Raises TypeError
    for a Both."""
    match node:
        case Chars():
            return 1
        case Concat(items):
            return sum(greatest_length(item, more) for item in items)
        case Either(items):
            return max((greatest_length(item, more) for item in items), default=0)
        case Repeat(item, least, most):
            once = greatest_length(item, more)
            times = least + more if most is None else most
            return once and times and times * once
    raise TypeError(f"{type(node).__name__} matches no text by itself")


def of_length(node: Regex, least: int, most: float) -> Regex | None:
    """The tree of a tree's texts with `least` to `most` characters. Only for trees in which at most
    one part has several lengths, and that part repeats something of one length; else None."""
    match node:
        case Repeat(item, fewest, greatest):
            once, longest = lengths(item)
            if once != longest or not 0 < once < math.inf:
                return None
            fewest = max(fewest, math.ceil(least / once))
            times = min(math.inf if greatest is None else greatest, most // once)
            some = Repeat(item, fewest, None if times == math.inf else int(times))
            return some if fewest <= times else NOTHING
        case Concat(items):
            known = list(map(lengths, items))
            places = [i for i, (shortest, longest) in enumerate(known) if shortest != longest]
            others = sum(shortest for shortest, longest in known if shortest == longest)
            if len(places) != 1 or others == math.inf:
                return None
            place = places[0]
            part = of_length(items[place], max(0, least - int(others)), most - others)
            return part and concat(*items[:place], part, *items[place + 1 :])
    return None


def is_endless(node: Regex) -> bool:
    """Whether a tree without anchors certainly matches texts of any length."""
    match node:
        case Concat(items):
            return any(map(is_endless, items)) and least_length(node) < math.inf
        case Either(items):
            return any(map(is_endless, items))
        case Repeat(item, _, None):
            return 0 < least_length(item) < math.inf
    return False


def with_chars(node: Regex, make: Callable[[CharSet], Regex]) -> Regex:
    """A tree without anchors, with the result of `make` in place of each character set. Raises
    UnsupportedRegex for other trees."""
    if isinstance(node, Chars):
        return make(node.chars)
    if isinstance(node, Repeat):
        return Repeat(with_chars(node.item, make), node.least, node.most)
    if isinstance(node, (Concat, Either)):
        return type(node)(tuple([with_chars(item, make) for item in node.items]))
    raise anchor_inside()


def anchor_inside() -> UnsupportedRegex:
    """The error for a tree that must have no anchors."""
    return UnsupportedRegex(
        "an anchor or a lookahead inside a regular expression cannot be enforced"
    )


@lru_cache(maxsize=4096)
def character(char: str) -> Chars:
    """A character that stands for itself. All its occurrences share one node, since there may be
    many."""
    return Chars(exactly((ord(char), ord(char))))


def literal(text: str) -> Regex:
    """The tree that matches only `text`."""
    return Concat(tuple(map(character, text)))


def literals(texts: Iterable[str]) -> Regex:
    """The tree that matches any of the texts."""
    return Either(tuple(map(literal, texts)))


def either(nodes: Iterable[Regex]) -> Regex:
    """One of the nodes, without choices inside choices."""
    options = [
        part for node in nodes for part in (node.items if isinstance(node, Either) else (node,))
    ]
    return options[0] if len(options) == 1 else Either(tuple(options))


def concat(*nodes: Regex) -> Regex:
    """The nodes one after the other; NOTHING where one of them is NOTHING."""
    if NOTHING in nodes:
        return NOTHING
    items = [
        part for node in nodes for part in (node.items if isinstance(node, Concat) else (node,))
    ]
    return items[0] if len(items) == 1 else Concat(tuple(items))
