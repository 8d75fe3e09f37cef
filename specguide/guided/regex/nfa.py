"""Owns nondeterministic automata: their construction from a tree (Thompson 1968), and the matching
of texts.

Matching takes steps linear in the text's length: it follows all states to which the text may have
led. The target of a set of states is cached, so that a deterministic automaton grows as far as
texts need it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from specguide.guided.budget import kept, spend
from specguide.guided.regex.first import first_of
from specguide.guided.regex.letters import Edge
from specguide.guided.regex.tree import (
    Both,
    Chars,
    Concat,
    Either,
    Regex,
    Repeat,
    UnsupportedRegex,
    anchor_inside,
)

_MAX_STATES = 1_000_000


class Nfa:
    """A nondeterministic automaton from state 0 to state `last`: `moves` read a character, `skips`
    none.

    outer:       it matches what some dialect matches, not what all match
    most_states: raises UnsupportedRegex where it has more
    longest:     it need only be right for texts of up to this many characters, so repetitions get
                 no more copies than that; `right_up_to` says for which lengths it is right
    """

    def __init__(
        self,
        node: Regex,
        *,
        outer: bool = False,
        most_states: int = _MAX_STATES,
        longest: int | None = None,
    ) -> None:
        self.moves: list[list[Edge]] = []
        self.skips: list[list[int]] = []
        self._closures: dict[int, frozenset[int]] = {}
        self._outer, self._most_states, self._longest = outer, most_states, longest
        self.right_up_to = math.inf
        self.last = self._add(node, self._state())

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """The states, and all that they reach without reading a character."""
        found = frozenset().union(*map(self._closure_of, states))
        spend(1 + len(found) // 4)
        return found

    def _closure_of(self, state: int) -> frozenset[int]:
        """The closure of one state. Call it only when all moves are there."""
        known = self._closures.get(state)
        if known is None:
            found, todo = {state}, [state]
            while todo:
                for one in self.skips[todo.pop()]:
                    if one not in found:
                        found.add(one)
                        todo.append(one)
            known = self._closures[state] = frozenset(found)
        return known

    def _state(self, num_edges: int = 0) -> int:
        """Add a state and return its number. num_edges: number of edges that lead to it"""
        spend(1 + num_edges)
        self.moves.append([])
        self.skips.append([])
        if len(self.moves) > self._most_states:
            raise UnsupportedRegex(
                f"a regular expression whose automaton has more than {self._most_states} states "
                "cannot be compared with others; make it simpler"
            )
        return len(self.moves) - 1

    def _add(self, node: Regex, start: int) -> int:
        """Add `node` behind a state. Returns the state where it ends."""
        if isinstance(node, Chars):
            ranges = node.chars.outer if self._outer else node.chars.inner
            end = self._state(len(ranges))
            self.moves[start] += [(low, high, end) for low, high in ranges]
            return end
        if isinstance(node, Concat):
            for item in node.items:
                start = self._add(item, start)
            return start
        if isinstance(node, Either):
            end = self._state()
            for item in node.items:
                self.skips[self._add(item, start)].append(end)
            return end
        if isinstance(node, Repeat):
            return self._repeat(node, start)
        raise anchor_inside()

    def _repeat(self, node: Repeat, start: int) -> int:
        least, most = node.least, node.most
        if self._longest is not None and (most or least) > self._longest:
            least, most = min(least, self._longest + 1), None
            self.right_up_to = self._longest
        for _ in range(least):
            start = self._add(node.item, start)
        if most is None:
            loop, end = self._state(), self._state()
            self.skips[start].append(loop)
            self.skips[self._add(node.item, loop)].append(loop)
            self.skips[loop].append(end)
            return end
        end = self._state()
        for _ in range(most - least):
            self.skips[start].append(end)
            entry = self._state()  # a new one: a loop inside the item must not lead back before it
            self.skips[start].append(entry)
            start = self._add(node.item, entry)
        self.skips[start].append(end)
        return end


class TextMatcher:
    """Matches whole texts by a tree without anchors, in every dialect. Raises UnsupportedRegex for
    absurd repetitions."""

    def __init__(self, node: Regex) -> None:
        self._node = node
        both = node if isinstance(node, Both) else Both((), (), True)
        self._all, self._none = list(map(TextMatcher, both.items)), list(map(TextMatcher, both.but))
        self._first = first_of(node)
        self._automaton: _LazyAutomaton | None = None
        self._known: dict[str, bool] = {}

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text, in steps linear in the text; cached."""
        if text not in self._known:
            self._known[text] = self._matches(text)
        return self._known[text]

    def _matches(self, text: str) -> bool:
        if isinstance(self._node, Both):
            return all(one.matches(text) for one in self._all) and not any(
                one.matches(text) for one in self._none
            )
        if not self._first.begins(text):
            return False
        if self._automaton is None or len(text) > self._automaton.right_up_to:
            longest = 1 << len(text).bit_length()
            self._automaton = _LazyAutomaton(Nfa(self._node, longest=longest))
        return self._automaton.matches(text)


@kept
def text_matcher(node: Regex) -> TextMatcher:
    """The matcher of a tree, shared by all objects of a schema that need it."""
    return TextMatcher(node)


class _LazyAutomaton:
    """A deterministic automaton whose states are made when a text reaches them."""

    def __init__(self, nfa: Nfa) -> None:
        self._nfa = nfa
        self.right_up_to = nfa.right_up_to
        self._start = nfa.closure({0})
        self._after: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        states = self._start
        spend(1 + len(text) // 4)
        for char in text:
            if (states, char) not in self._after:
                self._after[states, char] = self._move(states, ord(char))
            states = self._after[states, char]
            if not states:
                return False
        return self._nfa.last in states

    def _move(self, states: frozenset[int], code: int) -> frozenset[int]:
        edges = [edge for state in states for edge in self._nfa.moves[state]]
        spend(1 + (len(states) + len(edges)) // 8)
        return self._nfa.closure({to for low, high, to in edges if low <= code <= high})
