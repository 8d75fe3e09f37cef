"""Owns the first characters of a regular expression's texts: they mostly suffice to see that a
text, or another expression, has nothing in common with it."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.guided.budget import spend
from specguide.guided.quick import quick
from specguide.guided.regex.charset import Ranges, holds, intersect, union
from specguide.guided.regex.tree import Both, Chars, Concat, Either, Regex, Repeat


@quick
@dataclass(frozen=True)
class First:
    """The characters with which texts of a tree may begin, in every dialect, and whether one of the
    texts may be empty."""

    chars: Ranges
    may_be_empty: bool

    def begins(self, text: str) -> bool:
        """Whether `text` may be one of the texts, by its first character."""
        return holds(self.chars, ord(text[0])) if text else self.may_be_empty

    def __and__(self, other: First) -> First:
        return First(intersect(self.chars, other.chars), self.may_be_empty and other.may_be_empty)


_EMPTY = First((), True)


def first_of(node: Regex) -> First:
    """The First of a tree without anchors. A Both has the First of its first item.
    Raises TypeError for what matches no text by itself."""
    spend(2)
    match node:
        case Chars(chars):
            return First(chars.inner, False)
        case Concat(items):
            return _of_sequence(items)
        case Either(items):
            firsts = list(map(first_of, items))
            return First(
                union(*(first.chars for first in firsts)),
                any(first.may_be_empty for first in firsts),
            )
        case Repeat(item, least, most):
            found_once = _EMPTY if most == 0 else first_of(item)
            return First(found_once.chars, least == 0 or found_once.may_be_empty)
        case Both(items):
            return first_of(items[0])
    raise TypeError(f"{type(node).__name__} matches no text by itself")


def _of_sequence(items: tuple[Regex, ...]) -> First:
    chars: Ranges = ()
    for item in items:
        first = first_of(item)
        chars = union(chars, first.chars)
        if not first.may_be_empty:
            return First(chars, False)
    return First(chars, True)
