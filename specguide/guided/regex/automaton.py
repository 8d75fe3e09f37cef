"""Owns finite automata over characters: they find the texts that regular expressions share, and the
texts that one matches and another does not.

A tree of `parse` may match other texts in another dialect. An automaton matches what all dialects
match (`inner`), or what some dialect matches (`outer`). States are numbered from 0, the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby
from operator import and_, itemgetter, or_, sub

from specguide.guided.budget import kept, know, spend
from specguide.guided.quick import hashed_once
from specguide.guided.regex.elimination import tree_of
from specguide.guided.regex.letters import (
    NOWHERE,
    Alphabet,
    Edge,
    Row,
    SideBySide,
    fewest_letters,
    rows_of,
)
from specguide.guided.regex.minimal import lengths_to_end, live_rows, minimal_rows
from specguide.guided.regex.nfa import Nfa
from specguide.guided.regex.tree import Both, Regex, UnsupportedRegex

MAX_STATES = 400
MANY_STATES = 3_000
"""The limit where smaller automata do not tell what must be known."""
_NO_YES = (False, True)
_target = itemgetter(2)


@hashed_once
@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton with as few states and letters as possible.

    rows: one for each state; an automaton without rows matches no text
    """

    alphabet: Alphabet
    rows: tuple[Row, ...]
    accepting: frozenset[int]

    @classmethod
    def from_rows(
        cls, alphabet: Alphabet, rows: Sequence[Sequence[int]], accepting: set[int]
    ) -> Automaton:
        """The smallest automaton for these states, each of which some text must reach."""
        few, ends = minimal_rows(rows, accepting)
        return cls(*fewest_letters(alphabet, few), ends)

    @classmethod
    def from_many_rows(
        cls, alphabet: Alphabet, rows: Sequence[Sequence[int]], accepting: set[int]
    ) -> Automaton:
        """Likewise, but states that no text distinguishes may stay, as finding them among many
        takes long."""
        few, ends = live_rows(rows, accepting)
        return cls(*fewest_letters(alphabet, few), ends)

    @cached_property
    def edges(self) -> tuple[tuple[Edge, ...], ...]:
        """By state: its edges, sorted; they share no character."""
        return tuple(map(self.alphabet.edges, self.rows))

    @cached_property
    def to_end(self) -> Mapping[int, int]:
        """By state: the length of the shortest text that is matched from there."""
        return lengths_to_end(self.rows, self.accepting)

    @property
    def is_empty(self) -> bool:
        """Whether it matches no text at all."""
        return not self.accepting

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        state = 0 if self.rows else NOWHERE
        spend(1 + len(text))
        for char in text:
            if state == NOWHERE:
                return False
            state = self.rows[state][self.alphabet.letter_at(ord(char))]
        return state in self.accepting

    def num_texts(self, most: int) -> int:
        """Number of texts that it matches, counted to a little over `most`."""
        found, states = 0, Counter([0] if self.rows else [])
        while states and found <= most:
            found += sum(count for state, count in states.items() if state in self.accepting)
            after: Counter[int] = Counter()
            for state, count in states.items():
                spend(1 + len(self.edges[state]))
                for low, high, to in self.edges[state]:
                    after[to] += count * (high - low + 1)
            states = after
        return found

    def texts(self) -> Iterator[str]:
        """All texts that it matches, the shortest first. Endless where there are infinitely
        many."""
        paths = [("", 0)] if self.rows else []
        for text, state in paths:
            if state in self.accepting:
                yield text
            paths += [
                (text + chr(code), to)
                for low, high, to in self.edges[state]
                for code in range(low, high + 1)
            ]

    def __and__(self, other: Automaton) -> Automaton:
        return self.common(other)

    def __or__(self, other: Automaton) -> Automaton:
        return _product(self, other, or_, MAX_STATES)

    def __sub__(self, other: Automaton) -> Automaton:
        return self.less(other)

    def common(self, other: Automaton, most_states: int = MAX_STATES) -> Automaton:
        """The texts that both match."""
        return _product(self, other, and_, most_states)

    def less(self, other: Automaton, most_states: int = MAX_STATES) -> Automaton:
        """The texts that this one matches and the other does not."""
        return _product(self, other, _in_left_alone, most_states)

    def node(self) -> Regex:
        """A tree that matches the same texts in every dialect. Raises UnsupportedRegex where it is
        too large."""
        return _tree(self)


@kept
def _tree(found: Automaton) -> Regex:
    return tree_of(found.edges, found.accepting)


def automaton(node: Regex, *, outer: bool = False, most_states: int = MAX_STATES) -> Automaton:
    """The automaton of the texts that a tree without anchors matches in every dialect, or in some
    dialect (`outer`).

    Raises UnsupportedRegex where it has more than `most_states` states.
    """
    result = _automaton_or_error(node, outer)
    if isinstance(result, UnsupportedRegex) and most_states > MAX_STATES:
        result = _automaton_or_error(node, outer, most_states)
    if isinstance(result, UnsupportedRegex):
        raise UnsupportedRegex(str(result))
    return result


def know_automaton(node: Regex, found: Automaton) -> None:
    """Make `automaton` return this one for a tree that was made from it."""
    know(_automaton_or_error, found, node, False)


@kept
def _automaton_or_error(
    node: Regex, outer: bool, most_states: int = MAX_STATES
) -> Automaton | UnsupportedRegex:
    """The automaton, or the error that there are too many states; either is cached."""
    try:
        if isinstance(node, Both):
            return _of_both(node, outer, most_states)
        return _of_tree(node, outer, most_states)
    except UnsupportedRegex as error:
        return error


def _of_tree(node: Regex, outer: bool, most_states: int) -> Automaton:
    nfa = Nfa(node, outer=outer, most_states=10 * most_states)
    alphabet, rows_from = _rows_from(nfa)
    nothing = (NOWHERE,) * (1 + max(alphabet.letters))
    start = nfa.closure({0})
    numbers, rows, queue = {start: 0}, [], [start]
    for states in queue:
        ways = [row for state in states for row in rows_from[state]] or [nothing]
        spend(1 + len(ways) * (1 + len(nothing) // 16))
        columns = list(map(frozenset, zip(*ways, strict=True)))
        into: dict[frozenset[int], int] = {}
        for targets in dict.fromkeys(columns):
            behind = nfa.closure(targets - {NOWHERE})
            if behind and behind not in numbers:
                numbers[behind] = len(numbers)
                queue.append(behind)
                _check_states(len(numbers), most_states)
            into[targets] = numbers.get(behind, NOWHERE)
        rows.append(list(map(into.__getitem__, columns)))
    ends = {number for states, number in numbers.items() if nfa.last in states}
    return Automaton.from_rows(alphabet, rows, ends)


def _rows_from(nfa: Nfa) -> tuple[Alphabet, list[list[Row]]]:
    """The alphabet of the states, and several rows for each state: one for each state that its
    edges lead to, since edges to different states may overlap."""
    ranges: dict[tuple[tuple[int, int], ...], int] = {}
    ways: list[list[tuple[int, int]]] = []
    for moves in nfa.moves:
        ways.append([])
        for to, found in groupby(moves, key=_target):
            taken = tuple((low, high) for low, high, _ in found)
            ways[-1].append((ranges.setdefault(taken, len(ranges)), to))
            spend(1 + len(taken) // 4)
    alphabet, of_ranges = rows_of([(low, high, 0) for low, high in taken] for taken in ranges)
    rows = [
        [tuple([NOWHERE if way else to for way in of_ranges[number]]) for number, to in found]
        for found in ways
    ]
    return alphabet, rows


def _of_both(node: Both, outer: bool, most_states: int) -> Automaton:
    items = [automaton(item, outer=outer, most_states=most_states) for item in node.items]
    common = reduce(and_, items)
    if outer and not node.is_exact:
        return common  # in some dialect `but` may match nothing
    return reduce(sub, [automaton(one, most_states=most_states) for one in node.but], common)


def _check_states(num_states: int, most_states: int) -> None:
    if num_states > most_states:
        raise UnsupportedRegex(
            f"a regular expression of more than {most_states} states cannot be compared with "
            "others; make it simpler"
        )


def _in_left_alone(left: bool, right: bool) -> bool:
    return left and not right


@kept
def _side_by_side(left: Automaton, right: Automaton) -> SideBySide:
    return SideBySide([(left.alphabet, left.rows), (right.alphabet, right.rows)])


@kept
def _product(
    left: Automaton, right: Automaton, keep: Callable[[bool, bool], bool], most_states: int
) -> Automaton:
    """The automaton whose states are pairs of states of both.

    keep: whether a text counts, by whether the left and the right automaton match it
    """
    if left.is_empty:
        return right if keep(False, True) else left
    both = _side_by_side(left, right)
    start = (0, 0 if right.rows else NOWHERE)
    numbers: dict[tuple[int, ...], int] = {start: 0}
    rows, queue = [], list(numbers)
    # by whether the left and the right automaton still have a state: whether a text may yet count
    goes_on = [[keep(one, other) or keep(one, False) for other in _NO_YES] for one in _NO_YES]
    for states in queue:
        pairs = list(both.after(states))
        for pair in dict.fromkeys(pairs):
            if pair not in numbers:
                lives = goes_on[pair[0] != NOWHERE][pair[1] != NOWHERE]
                numbers[pair] = len(queue) if lives else NOWHERE
                if lives:
                    queue.append(pair)
                    _check_states(len(queue), most_states)
        rows.append(list(map(numbers.__getitem__, pairs)))
    ends = {
        number
        for number, (one, other) in enumerate(queue)
        if keep(one in left.accepting, other in right.accepting)
    }
    made = Automaton.from_rows if most_states <= MAX_STATES else Automaton.from_many_rows
    return made(both.alphabet, rows, ends)
