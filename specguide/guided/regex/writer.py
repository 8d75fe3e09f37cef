"""Owns the writing of regular expressions without anchors for the backends.

`write` uses only literals, positive classes, groups, alternatives and repetitions, which the
engines of all backends read alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from specguide.guided.budget import spend
from specguide.guided.regex.charset import CharSet, Ranges, intersect
from specguide.guided.regex.tree import (
    EMPTY,
    NOTHING,
    Both,
    Chars,
    Concat,
    Either,
    Look,
    Regex,
    Repeat,
    anchor_inside,
)

_CARET = ord("^")


def restrict(node: Regex, universe: Ranges) -> Regex:
    """The texts of `node`, in every dialect, that contain only characters of `universe`; NOTHING
    where there are none."""

    @cache
    def left(node: Chars) -> Regex:
        spend(1 + len(node.chars.inner))
        inner = intersect(node.chars.inner, universe)
        if inner == node.chars.inner == node.chars.outer:
            return node
        return Chars(CharSet(inner, inner)) if inner else NOTHING

    return _restricted(node, left)


def _restricted(node: Regex, left: Callable[[Chars], Regex]) -> Regex:
    """left: what is left of a character set"""
    if isinstance(node, Chars):
        return left(node)
    if isinstance(node, Repeat):
        item = _restricted(node.item, left)
        if item is NOTHING:
            return EMPTY if node.least == 0 else NOTHING
        return Repeat(item, node.least, node.most)
    if not isinstance(node, (Concat, Either, Both)):
        raise anchor_inside()
    spend(len(node.items))
    items = tuple([_restricted(item, left) for item in node.items])
    if isinstance(node, Either):
        options = tuple([item for item in items if item is not NOTHING])
        return Either(options) if options else NOTHING
    if any(item is NOTHING for item in items):
        return NOTHING
    if isinstance(node, Both):
        but = [_restricted(excluded, left) for excluded in node.but]
        but = [excluded for excluded in but if excluded is not NOTHING]
        return Both(items, tuple(but), node.is_exact)
    return node if items == node.items else Concat(items)


def is_exact(node: Regex) -> bool:
    """Whether all dialects agree on the texts that `node` matches."""
    if isinstance(node, Chars):
        return node.chars.inner == node.chars.outer
    if isinstance(node, Repeat):
        return is_exact(node.item)
    if isinstance(node, Both):
        return node.is_exact
    return not isinstance(node, (Concat, Either)) or all(map(is_exact, node.items))


def is_flat(node: Regex, inside: bool = False) -> bool:
    """Whether no repetition is inside another one or inside an alternative."""
    if isinstance(node, Repeat):
        return not inside and is_flat(node.item, True)
    if isinstance(node, Either):
        return all(is_flat(item, len(node.items) > 1 or inside) for item in node.items)
    if isinstance(node, Look):
        return False
    return not isinstance(node, Concat) or all(is_flat(item, inside) for item in node.items)


def write(node: Regex) -> str:
    """The text of a tree without anchors, to be matched against a whole text; for a Both it has
    lookaheads. Raises ValueError for NOTHING."""
    if isinstance(node, Chars):
        return _write_class(node.chars.inner)
    if isinstance(node, Concat):
        return "".join(
            f"(?:{write(item)})" if isinstance(item, Either) else write(item) for item in node.items
        )
    if isinstance(node, Either) and node.items:
        return "|".join(write(item) for item in node.items)
    if isinstance(node, Repeat):
        inner = write(node.item)
        return (inner if isinstance(node.item, Chars) else f"(?:{inner})") + _write_bounds(node)
    if isinstance(node, Both):
        first, *others = node.items
        also = "".join(f"(?=(?:{write(excluded)})$)" for excluded in others)
        return (
            also
            + "".join(f"(?!(?:{write(excluded)})$)" for excluded in node.but)
            + f"(?:{write(first)})"
        )
    raise ValueError("a tree that matches nothing has no text")


def _write_bounds(node: Repeat) -> str:
    short = {
        (0, None): "*",
        (1, None): "+",
        (0, 1): "?",
        (node.least, node.least): f"{{{node.least}}}",
    }
    return (
        short.get((node.least, node.most))
        or f"{{{node.least},{'' if node.most is None else node.most}}}"
    )


@lru_cache(maxsize=1024)
def _write_class(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _write_char(ranges[0][0])
    return f"[{''.join(_write_range(low, high) for low, high in _with_last_caret(ranges))}]"


def _with_last_caret(ranges: Ranges) -> Ranges:
    """The ranges, with a `^` that begins the first of them moved to the end: xgrammar negates a
    class that begins with one, escaped or not."""
    (low, high), *others = ranges
    if low != _CARET:
        return ranges
    rest = [(low + 1, high)] if low < high else []
    return (*rest, *others, (low, low))


def _write_range(low: int, high: int) -> str:
    return _write_char(low) if low == high else f"{_write_char(low)}-{_write_char(high)}"


def _write_char(code: int) -> str:
    char = chr(code)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\{char}" if char in r"\^$.|?*+()[]{}-/" else char
