"""Owns short sample texts of a regular expression. If another expression matches one of them, the
two share a text, which is quicker to find than by comparing automata."""

from __future__ import annotations

import math
from collections.abc import Iterator

from specguide.guided.budget import spend
from specguide.guided.regex.charset import holds
from specguide.guided.regex.tree import Both, Chars, Concat, Either, Regex, Repeat, least_length

_LETTERS = ("a", "0", "")
"""The character that represents a set that contains it; "": the first of the set."""
_LONGEST = 300


def samples(node: Regex, least: int) -> Iterator[str]:
    """A few texts that a tree matches, or, for a Both, texts of each of its items. They have at
    least `least` characters, if repetitions allow it; there are none where they would be too
    long."""
    if isinstance(node, Both):
        for item in node.items:
            yield from samples(item, least)
        return
    length = least_length(node)
    if max(length, least) <= _LONGEST:
        for letter in _LETTERS:
            yield _Writer(letter, max(0, least - int(length))).text(node)


class _Writer:
    """Writes a shortest text, with up to `num_more` further characters by repetition."""

    def __init__(self, letter: str, num_more: int) -> None:
        self._letter, self._num_more = letter, num_more

    def text(self, node: Regex) -> str:
        spend(2)
        match node:
            case Chars(chars):
                has_letter = self._letter and holds(chars.inner, ord(self._letter))
                return self._letter if has_letter else chr(chars.inner[0][0])
            case Concat(items):
                return "".join(map(self.text, items))
            case Either(items):
                return self.text(min(items, key=least_length))
            case Repeat(item, least, most):
                return "".join(
                    self.text(item) for _ in range(least + self._more(item, least, most))
                )
        raise TypeError(f"{type(node).__name__} matches no text by itself")

    def _more(self, item: Regex, least: int, most: int | None) -> int:
        """How often an item is repeated beyond its least number."""
        length = least_length(item)
        if not self._num_more or not 0 < length < math.inf:
            return 0
        num = math.ceil(self._num_more / length)
        num = num if most is None else min(num, most - least)
        self._num_more -= min(self._num_more, num * int(length))
        return num
