"""Owns the conversion of an automaton to a tree (state elimination; Brzozowski and McCluskey
1963)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from specguide.guided.budget import spend
from specguide.guided.regex.charset import CharSet, union
from specguide.guided.regex.letters import Edge
from specguide.guided.regex.tree import (
    EMPTY,
    NOTHING,
    TOO_LONG,
    Chars,
    Concat,
    Either,
    Regex,
    Repeat,
    UnsupportedRegex,
    concat,
)

MAX_SIZE = 4_000
MAX_NESTED = 75
"""Most groups inside each other: the libraries read at most 80, and `parse` at most 100."""


def tree_of(edges: Sequence[Sequence[Edge]], accepting: Iterable[int]) -> Regex:
    """The tree of the texts that an automaton matches. edges: the edges of each state. Raises
    UnsupportedRegex where it is too large."""
    return _Elimination(edges, accepting).run()


class _Elimination:
    """The conversion: states are removed one by one, and the ways through them become labels of
    edges."""

    def __init__(self, all_edges: Sequence[Sequence[Edge]], accepting: Iterable[int]) -> None:
        self._out: dict[int, dict[int, Regex]] = defaultdict(dict)
        self._into: dict[int, set[int]] = defaultdict(set)
        self._sizes: dict[int, tuple[Regex, int, int]] = {}
        self._first, self._last = -1, len(all_edges)
        for state, edges in enumerate(all_edges):
            ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
            for low, high, to in edges:
                ranges[to].append((low, high))
            for to, found in ranges.items():
                joined = union(found)
                self._join(state, to, Chars(CharSet(joined, joined)))
        for state in accepting:
            self._join(state, self._last, EMPTY)
        if all_edges:
            self._join(self._first, 0, EMPTY)

    def run(self) -> Regex:
        left = set(range(self._last))
        while left:
            spend(1 + len(left) // 2)
            state = min(
                left, key=lambda state: (len(self._into[state]) * len(self._out[state]), state)
            )
            left.remove(state)
            self._take_out(state)
        return self._out[self._first].get(self._last, NOTHING)

    def _take_out(self, state: int) -> None:
        after = self._out.pop(state, {})
        self._into[state].discard(state)
        loop = after.pop(state, None)
        around = EMPTY if loop is None else Repeat(loop, 0, None)
        for source in self._into.pop(state, ()):
            before = self._out[source].pop(state)
            for to, behind in after.items():
                self._join(source, to, concat(before, around, behind))
        for to in after:
            self._into[to].discard(state)

    def _join(self, source: int, to: int, node: Regex) -> None:
        """Add a way from one state to another."""
        known = self._out[source].get(to)
        self._out[source][to] = joined = node if known is None else _either(known, node)
        self._into[to].add(source)
        size, nested = self._size(joined)
        if size > MAX_SIZE or nested > MAX_NESTED:
            raise UnsupportedRegex(TOO_LONG)

    def _size(self, node: Regex) -> tuple[int, int]:
        """Number of a tree's nodes, each counted as often as it occurs, and how deeply its groups
        are nested."""
        if id(node) not in self._sizes:
            spend(1 + len(node.chars.inner) // 16 if isinstance(node, Chars) else 1)
            inside: Iterable[Regex] = ()
            if isinstance(node, (Concat, Either)):
                inside = node.items
                spend(len(node.items) // 4)
            elif isinstance(node, Repeat):
                inside = (node.item,)
            size, nested = 1, 0
            for one in inside:
                size_inside, nested_inside = self._size(one)
                size += size_inside
                nested = max(nested, nested_inside + _is_group(one, node))
            self._sizes[id(node)] = (node, size, nested)
        return self._sizes[id(node)][1:]


def _is_group(node: Regex, around: Regex) -> bool:
    """Whether a node is written as a group inside the node around it."""
    if isinstance(around, Repeat):
        return not isinstance(node, Chars)
    return isinstance(around, Concat) and isinstance(node, Either)


def _either(left: Regex, right: Regex) -> Regex:
    """See `either` of a tree; duplicates are removed."""
    items = tuple(
        dict.fromkeys(
            item
            for node in (left, right)
            for item in (node.items if isinstance(node, Either) else (node,))
        )
    )
    return items[0] if len(items) == 1 else Either(items)
