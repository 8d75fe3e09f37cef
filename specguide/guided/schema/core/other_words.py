"""Owns the pattern that matches every string except some words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specguide.guided.budget import kept, know, spend
from specguide.guided.regex.charset import Ranges, exactly, holds
from specguide.guided.regex.tree import (
    ANY_TEXT,
    Chars,
    Concat,
    Either,
    Regex,
    UnsupportedRegex,
    either,
    literal,
)
from specguide.guided.schema.core.pattern_text import write_pattern
from specguide.guided.schema.core.patterns import pattern_matcher

_BLOCK = 32
"""Words that share their first characters share them in blocks of this length in the expression."""
_MAX_BESIDE = 2_000_000


@kept
def pattern_beside(words: frozenset[str], characters: Ranges) -> str:
    """Returns the pattern of every string except the words. Raises UnsupportedRegex where it is too
    long."""
    pattern = (
        None
        if sum(len(word) ** 2 for word in words) > _MAX_BESIDE
        else write_pattern(strings_beside(words), characters)
    )
    if pattern is None:
        raise UnsupportedRegex(
            "the pattern that excludes the listed strings is too long; list fewer or shorter ones"
        )
    know(pattern_matcher, _OtherWords(words, characters), pattern)
    return pattern


@dataclass(frozen=True)
class _OtherWords:
    """Matches as `pattern_beside` does, without an automaton."""

    words: frozenset[str]
    characters: Ranges

    def matches(self, text: str) -> bool:
        """Whether a text consists of the characters and is none of the words."""
        spend(1 + len(text) // 4)
        return text not in self.words and all(
            holds(self.characters, code) for code in map(ord, text)
        )


def strings_beside(words: frozenset[str]) -> Regex:
    """Returns the expression of every string except the words: a prefix of a word that is no word
    itself, or a prefix followed by a character that leads to no word.

    Prefixes share their first characters in blocks, which keeps the tree both flat and short.
    """
    blocks: dict[str, dict[str, list[str]]] = {}  # by the characters that are shared
    for beginning, follow in _beginnings(words).items():
        shared = beginning[: len(beginning) // _BLOCK * _BLOCK]
        blocks.setdefault(shared, {})[beginning] = follow
    nodes: dict[str, list[Regex]] = {shared: [] for shared in blocks}
    for shared in sorted(blocks, key=len, reverse=True):
        node = Either((*_beside(blocks[shared], len(shared), words), *nodes[shared]))
        if shared:
            outer = shared[:-_BLOCK]
            nodes[outer].append(Concat((literal(shared[len(outer) :]), node)))
    return node


def _beginnings(words: frozenset[str]) -> dict[str, list[str]]:
    """The prefixes of the words, each with the characters that may follow."""
    beginnings: dict[str, list[str]] = {"": []}
    for word in sorted(words):
        spend(1 + 8 * len(word))
        for i, char in enumerate(word):
            follow = beginnings.setdefault(word[:i], [])
            if char not in follow[-1:]:
                follow.append(char)
        beginnings.setdefault(word, [])
    return beginnings


def _beside(
    beginnings: Mapping[str, list[str]], start: int, words: frozenset[str]
) -> Iterator[Regex]:
    """The strings, from character `start` on, that leave the words right after a prefix."""
    rests: dict[tuple[str, ...], list[Regex]] = {}  # by the characters that may follow
    for beginning, follow in beginnings.items():
        rests.setdefault(tuple(follow), []).append(literal(beginning[start:]))
    left = [
        Concat((either(found), Chars(~exactly(*((ord(char), ord(char)) for char in follow)))))
        for follow, found in rests.items()
    ]
    yield Concat((Either(tuple(left)), ANY_TEXT))
    yield from (literal(beginning[start:]) for beginning in beginnings if beginning not in words)
