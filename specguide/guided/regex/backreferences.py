"""Owns backreferences: a group with a reference to it is spelled out as one branch for each of its
texts, which must be few.

Where the group took no part in the match, the reference matches the empty text in ECMA-262, and
fails in Python. Such a branch is disputed: its characters match only in some dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from specguide.guided.budget import spend
from specguide.guided.regex.cases import any_case
from specguide.guided.regex.charset import CharSet, complement, exactly, intersect
from specguide.guided.regex.tree import (
    EMPTY,
    Anchor,
    Chars,
    Concat,
    Either,
    Group,
    Look,
    Reference,
    Regex,
    Repeat,
    UnsupportedRegex,
    concat,
    either,
    least_length,
)

_MAX_TEXTS = 64
_MAX_LENGTH = 256
_MAX_PARTS = 20_000
_PARTS_A_COUNT = 16
_NONE = frozenset[int]()

_Text: TypeAlias = tuple[CharSet, ...]
"""The text that a group matched, as a set for each character: one character on which dialects
agree, or all characters on which they do not."""
_Known: TypeAlias = Mapping[int, _Text | None]
"""By number, what groups matched; None: that depends on the dialect. Groups not listed took no
part."""
_Key: TypeAlias = tuple[frozenset[tuple[int, _Text | None]], bool]
"""What is known of groups, and whether some dialect does not match this way."""
_Ways: TypeAlias = dict[_Key, Regex]
_Numbers: TypeAlias = tuple[frozenset[int], frozenset[int]]


def spelled_out(node: Regex, referred: set[int]) -> Regex:
    """A tree of the same texts without groups and references.

    referred: numbers of the groups to which something refers

    Raises UnsupportedRegex where a group has too many texts, or where dialects would keep different
    texts of it.
    """
    return _Speller().closed(_without_other_groups(node, referred), {})


def _without_other_groups(node: Regex, referred: set[int]) -> Regex:
    match node:
        case Group(item, number):
            item = _without_other_groups(item, referred)
            return Group(item, number) if number in referred else item
        case Concat(items) | Either(items):
            return type(node)(tuple(_without_other_groups(item, referred) for item in items))
        case Repeat(item):
            return replace(node, item=_without_other_groups(item, referred))
        case Look(inside):
            return replace(node, node=_without_other_groups(inside, referred))
    return node


class _Speller:
    def __init__(self) -> None:
        self._left = _MAX_PARTS
        self._numbers: dict[Regex, _Numbers] = {}

    def closed(self, node: Regex, known: _Known) -> Regex:
        """A tree of what `node` matches, where nothing behind it refers to its groups."""
        ways = self._ways(node, known, _NONE)
        if any(is_disputed for _, is_disputed in ways):
            raise _refusal("a group that may take no part, with no other text beside it,")
        return _either(ways.values())

    def _ways(self, node: Regex, known: _Known, later: frozenset[int]) -> _Ways:
        """The ways to match a node, each with what is then known of the groups in `later`, to which
        something behind it refers."""
        self._count(1)
        here = _key(known, later)
        referred, groups = self._numbers_in(node)
        if not referred and not groups:
            return {here: node}
        match node:
            case Reference(number, ignores_case):
                if number not in known:
                    return {(here[0], True): EMPTY}
                text = known[number]
                if text is None:
                    raise _refusal("a group of the repetition around that is not before it")
                self._count(len(text))
                chars = map(any_case, text) if ignores_case else text
                return {here: concat(*map(Chars, chars))}
            case Group(item, number):
                return self._captured(number, self._ways(item, known, later), later)
            case Concat(items):
                return self._in_turn(items, known, later)
            case Either(items):
                return _merged(
                    way for item in items for way in self._ways(item, known, later).items()
                )
            case Repeat(item, least, 1):
                skipped = [] if least else [(here, EMPTY)]
                return _merged([*skipped, *self._ways(item, known, later).items()])
            case Repeat(item, least, most):
                if groups & later:
                    raise _refusal("a group inside a repetition")
                once = self.closed(item, {**known, **dict.fromkeys(groups)})
                return {here: Repeat(once, least, most)}
            case Look(inside, behind=behind):
                if (groups & later) or (behind and groups):
                    raise _refusal("a group inside a lookahead or lookbehind")
                return {here: replace(node, node=self.closed(inside, known))}
        raise TypeError(f"{type(node).__name__} holds no references")

    def _count(self, num_parts: int) -> None:
        spend(2 * num_parts)
        self._left -= num_parts
        if self._left < 0:
            raise _refusal("groups in too many places")

    def _in_turn(self, items: tuple[Regex, ...], known: _Known, later: frozenset[int]) -> _Ways:
        ahead = [later]  # groups referred to behind each item, the last item first
        for item in reversed(items):
            ahead.append(ahead[-1] | self._numbers_in(item)[0])
        found = [(_key(known, ahead.pop()), list[Regex]())]
        for item in items:
            self._count(sum(len(before) for _, before in found) // _PARTS_A_COUNT)
            found = [
                ((inner, is_disputed or also), [*before, one])
                for (outer, is_disputed), before in found
                for (inner, also), one in self._ways(item, dict(outer), ahead[-1]).items()
            ]
            ahead.pop()
            if len(found) > len({key for key, _ in found}):
                parts_of = _merged((key, concat(*parts)) for key, parts in found)
                found = [(key, [node]) for key, node in parts_of.items()]
            if len(found) > _MAX_TEXTS:
                raise _too_many()
        return _merged(_settled(key, concat(*parts)) for key, parts in found)

    def _captured(self, number: int, ways: _Ways, later: frozenset[int]) -> _Ways:
        """The ways of a group: one for each of its texts."""
        if number not in later:
            return ways
        return _merged(
            (_key({**dict(known), number: text}, later, is_disputed), matched)
            for (known, is_disputed), node in ways.items()
            for matched, text in _texts(node)
        )

    def _numbers_in(self, node: Regex) -> _Numbers:
        """The numbers of the groups to which a tree refers, and of those that it contains."""
        if node not in self._numbers:
            match node:
                case Reference(number):
                    found = frozenset([number]), _NONE
                case Group(item, number):
                    referred, groups = self._numbers_in(item)
                    found = referred, groups | {number}
                case Concat(items) | Either(items):
                    inside = [self._numbers_in(item) for item in items]
                    found = (
                        _NONE.union(*(referred for referred, _ in inside)),
                        _NONE.union(*(groups for _, groups in inside)),
                    )
                case Repeat(item) | Look(item):
                    found = self._numbers_in(item)
                case _:
                    return _NONE, _NONE
            self._numbers[node] = found
        return self._numbers[node]


def _key(known: _Known, later: frozenset[int], is_disputed: bool = False) -> _Key:
    return frozenset((number, known[number]) for number in known.keys() & later), is_disputed


def _merged(ways: Iterable[tuple[_Key, Regex]]) -> _Ways:
    merged: dict[_Key, list[Regex]] = {}
    for key, node in ways:
        merged.setdefault(key, []).append(node)
        if len(merged) > _MAX_TEXTS:
            raise _too_many()
    return {key: _either(nodes) for key, nodes in merged.items()}


def _either(nodes: Iterable[Regex]) -> Regex:
    """One of the nodes; if one of them is the empty text, the others are optional."""
    options = list(dict.fromkeys(nodes))
    if EMPTY not in options or len(options) == 1:
        return either(options)
    return Repeat(either(node for node in options if node != EMPTY), 0, 1)


def _settled(key: _Key, node: Regex) -> tuple[_Key, Regex]:
    """A way. Where it is disputed and matches some text, the dispute moves into its characters."""
    known, is_disputed = key
    if is_disputed and least_length(node) > 0:
        return (known, False), _disputed(node)
    return key, node


def _disputed(node: Regex) -> Regex:
    """A tree that matches no text in all dialects, and in some dialect what it matched before. Its
    texts must not be empty."""
    match node:
        case Chars(chars):
            return Chars(CharSet((), chars.outer))
        case Concat(items) | Either(items):
            return type(node)(tuple(map(_disputed, items)))
        case Repeat(item):
            return replace(node, item=_disputed(item))
    return node


def _texts(node: Regex) -> list[tuple[Regex, _Text]]:
    """The texts of a tree without groups, each with a tree for it alone, which keeps
    lookarounds."""
    match node:
        case Chars(chars):
            if sum(high - low + 1 for low, high in chars.inner) > _MAX_TEXTS:
                raise _too_many()
            sets = [
                exactly((code, code)) for low, high in chars.inner for code in range(low, high + 1)
            ]
            others = intersect(chars.outer, complement(chars.inner))
            sets += [CharSet((), others)] if others else []
            return [(Chars(one), (one,)) for one in sets]
        case Concat(items):
            prefixes = _NO_TEXT
            for item in items:
                prefixes = _in_pairs(prefixes, _texts(item))
            return prefixes
        case Either(items):
            return _few([text for item in items for text in _texts(item)])
        case Repeat(item, least, most) if most is not None and most <= _MAX_LENGTH:
            prefixes, once, so_far = [], _texts(item), _NO_TEXT
            for times in range(most + 1):
                prefixes += so_far if times >= least else []
                so_far = _in_pairs(so_far, once) if times < most else so_far
            return _few(prefixes)
        case Look() | Anchor():
            return [(node, ())]
    raise _too_many()


_NO_TEXT: list[tuple[Regex, _Text]] = [(EMPTY, ())]


def _in_pairs(
    before: list[tuple[Regex, _Text]], after: list[tuple[Regex, _Text]]
) -> list[tuple[Regex, _Text]]:
    if len(before) * len(after) > _MAX_TEXTS:
        raise _too_many()
    return _few([(concat(one, two), first + then) for one, first in before for two, then in after])


def _few(texts: list[tuple[Regex, _Text]]) -> list[tuple[Regex, _Text]]:
    """The texts, each once. Raises UnsupportedRegex where there are too many, or too long ones."""
    distinct = list(dict.fromkeys(texts))
    spend(1 + sum(len(text) for _, text in distinct))
    if len(distinct) > _MAX_TEXTS or any(len(text) > _MAX_LENGTH for _, text in distinct):
        raise _too_many()
    return distinct


def _too_many() -> UnsupportedRegex:
    return _refusal(f"groups of more than {_MAX_TEXTS} texts, or of long ones,")


def _refusal(what: str) -> UnsupportedRegex:
    return UnsupportedRegex(f"a backreference to {what} cannot be enforced")
