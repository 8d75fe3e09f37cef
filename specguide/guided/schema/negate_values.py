"""Owns the negation of listed values: what is none of them, type by type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specguide.guided.budget import kept, spend
from specguide.guided.regex.charset import EVERYTHING, CharSet, Ranges, exactly
from specguide.guided.regex.parse import (
    MAX_CHARS,
    Chars,
    Concat,
    Either,
    Node,
    Repeat,
    UnsupportedRegex,
    literal,
)
from specguide.guided.schema.json_values import TYPES, Json, Number, json_type
from specguide.guided.schema.nodes import (
    Arrays,
    Core,
    Numbers,
    Objects,
    Strings,
    all_of,
    any_of,
    arrays,
    numbers,
    objects,
    one_of_values,
    refuse,
    strings,
    typed,
)
from specguide.guided.schema.pattern_text import write_pattern

_BLOCK = 32
"""So many characters at the start of a string are written once for all that begin with them."""
_MAX_BESIDE = 2_000_000


def values_beside(
    values: list[Json], path: str, characters: Ranges, keyword: str = "const"
) -> Iterator[Core]:
    """What is none of the values. characters: that strings may have

    Raises UnsupportedGuide, which names `keyword`.
    """
    spend(8 + 4 * len(values))
    found: dict[str, list[Json]] = {
        name: [value for value in values if json_type(value) == name] for name in TYPES
    }
    others = [name for name, of_type in found.items() if not of_type]
    yield typed(path, *others) if others else False
    if found["boolean"]:
        yield one_of_values(path, (one for one in (True, False) if one not in found["boolean"]))
    if found["number"]:
        yield from _numbers_beside(sorted(found["number"]), path)
    if found["string"]:
        try:
            pattern = _pattern_beside(frozenset(found["string"]), characters)
        except UnsupportedRegex as error:
            raise refuse(keyword, path, str(error)) from error
        yield strings(path, Strings(pattern=pattern))
    for name in ("array", "object"):
        if found[name]:
            ways = (any_of(path, _containers_beside(one, path, characters)) for one in found[name])
            yield all_of(path, list(ways))


def _containers_beside(value: Json, path: str, characters: Ranges) -> Iterator[Core]:
    """Arrays or objects that lack a part of `value` or have another one in its place; of more,
    longer arrays only."""
    if isinstance(value, list):
        if value:
            yield arrays(path, Arrays(max_items=len(value) - 1))
        yield arrays(path, Arrays(min_items=len(value) + 1))
        for i, item in enumerate(value):
            yield from failing_item(i, any_of(path, values_beside([item], path, characters)), path)
        return
    if not value:
        yield objects(path, Objects(min_properties=1))
    for name, item in value.items():
        yield objects(path, Objects({name: False}))
        other = any_of(path, values_beside([item], path, characters))
        yield objects(path, Objects({name: other}, required=(name,)))


def failing_item(i: int, failed: Core, path: str) -> Iterator[Core]:
    """Arrays whose item at place `i` is `failed`."""
    if failed is not False:
        yield arrays(path, Arrays(min_items=i + 1, prefix=(*[True] * i, failed)))


def _numbers_beside(values: list[Number], path: str) -> Iterator[Core]:
    for low, high in zip([None, *values], [*values, None], strict=True):
        if low is None or high is None or low < high:
            yield numbers(path, Numbers(exclusive_minimum=low, exclusive_maximum=high))


@kept
def _pattern_beside(words: frozenset[str], characters: Ranges) -> str:
    """The pattern of every string but the words. Raises UnsupportedRegex where it is too long."""
    pattern = (
        None
        if sum(len(word) ** 2 for word in words) > _MAX_BESIDE
        else write_pattern(_strings_beside(words), characters)
    )
    if pattern is None or len(pattern) > MAX_CHARS:
        raise UnsupportedRegex("a pattern of all strings but these is too long to write down")
    return pattern


def _strings_beside(words: frozenset[str]) -> Node:
    """Every string but the words: a beginning of words that is none, or one with a character that
    leads to no word.

    The beginnings share their first characters by blocks, which keeps the tree as flat as it is
    short.
    """
    beginnings: dict[str, list[str]] = {"": []}  # each with the characters that may follow
    for word in sorted(words):
        spend(1 + 8 * len(word))
        for i, char in enumerate(word):
            follow = beginnings.setdefault(word[:i], [])
            if char not in follow[-1:]:
                follow.append(char)
        beginnings.setdefault(word, [])
    blocks: dict[str, dict[str, list[str]]] = {}  # by the characters that are shared
    for beginning, follow in beginnings.items():
        shared = beginning[: len(beginning) // _BLOCK * _BLOCK]
        blocks.setdefault(shared, {})[beginning] = follow
    nodes: dict[str, list[Node]] = {shared: [] for shared in blocks}
    for shared in sorted(blocks, key=len, reverse=True):
        node = Either((*_beside(blocks[shared], len(shared), words), *nodes[shared]))
        if shared:
            outer = shared[:-_BLOCK]
            nodes[outer].append(Concat((literal(shared[len(outer) :]), node)))
    return node


def _beside(
    beginnings: Mapping[str, list[str]], start: int, words: frozenset[str]
) -> Iterator[Node]:
    """The strings, from their character `start` on, that leave the words right behind one of the
    beginnings."""
    rests: dict[tuple[str, ...], list[Node]] = {}  # by what may follow
    for beginning, follow in beginnings.items():
        rests.setdefault(tuple(follow), []).append(literal(beginning[start:]))
    left = [
        Concat(
            (Either(tuple(found)), Chars(~exactly(*((ord(char), ord(char)) for char in follow))))
        )
        for follow, found in rests.items()
    ]
    yield Concat((Either(tuple(left)), Repeat(Chars(CharSet(EVERYTHING, EVERYTHING)), 0, None)))
    yield from (literal(beginning[start:]) for beginning in beginnings if beginning not in words)
