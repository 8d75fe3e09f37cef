"""Owns what a core's patterns match: each alone, and whether several have a string in common."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from heapq import heappop, heappush
from itertools import count
from operator import and_
from typing import Protocol

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import kept, spend
from specguide.guided.regex.automaton import MAX_STATES, Automaton, automaton
from specguide.guided.regex.both import match_one_text, outermost
from specguide.guided.regex.first import First, first_of
from specguide.guided.regex.letters import SideBySide
from specguide.guided.regex.nfa import text_matcher
from specguide.guided.regex.samples import samples
from specguide.guided.regex.tree import (
    ANY_CHAR,
    Repeat,
    UnsupportedRegex,
    is_endless,
)
from specguide.guided.regex.whole import searched

MAX_NAMES = 64
"""A pattern that matches up to this many names may be written out as properties."""
TOO_MANY_PATTERNS = "the schema's patterns take too long to compare; use fewer or simpler ones"
MAX_LOOKS = 25_000
"""Limit of product states that are visited in the search for a common string."""
_SOON = 200  # product states


def pattern_automaton(pattern: str, most_states: int = MAX_STATES) -> Automaton:
    """Returns the automaton of a core's `pattern`. Raises UnsupportedRegex for one of too many
    states."""
    return automaton(searched(pattern), most_states=most_states)


@kept
def num_matches(pattern: str, most: int) -> int:
    """Returns how many strings a pattern matches, at most `most`. Raises UnsupportedRegex as
    `pattern_automaton`."""
    if is_endless(searched(pattern)):
        return most
    return min(most, pattern_automaton(pattern).num_texts(most))


def has_few_names(pattern: str) -> bool:
    """Whether a pattern matches at most MAX_NAMES strings. Raises UnsupportedRegex as
    `pattern_automaton`."""
    return num_matches(pattern, MAX_NAMES + 1) <= MAX_NAMES


def few_names(pattern: str) -> list[str] | None:
    """Returns all strings that a pattern matches; None for more than MAX_NAMES, or where counting
    them takes too long."""
    with suppress(UnsupportedRegex):
        if has_few_names(pattern):
            return list(pattern_automaton(pattern).texts())
    return None


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether a core's `pattern` matches a string. Raises UnsupportedGuide for a pattern whose
    repetitions are too many."""
    try:
        return pattern_matcher(pattern).matches(text)
    except UnsupportedRegex as error:
        raise UnsupportedGuide(str(error), keyword="pattern") from error


def pattern_may_match(pattern: str, text: str) -> bool:
    """Whether a pattern may match a string in any of the usual dialects. Raises RegexError."""
    return _outer_matcher(pattern).matches(text)


class PatternMatcher(Protocol):
    """Matches whole texts."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        ...


@kept
def pattern_matcher(pattern: str) -> PatternMatcher:
    """Returns a matcher of a core's `pattern`."""
    return text_matcher(searched(pattern))


@kept
def _outer_matcher(pattern: str) -> PatternMatcher:
    return text_matcher(outermost(searched(pattern)))


@kept
def _first_of(pattern: str) -> First:
    return first_of(searched(pattern))


@kept
def have_common_text(patterns: tuple[str, ...], least: int, most: int | None) -> bool:
    """Whether a string of `least` to `most` characters matches all of a core's patterns. Raises
    UnsupportedRegex where the search takes too long."""
    first = reduce(and_, map(_first_of, patterns))
    if not first.chars and not (first.may_be_empty and least == 0):
        return False
    if _have_sample(patterns, least, most):
        return True
    try:
        automata = [pattern_automaton(pattern) for pattern in patterns]
    except UnsupportedRegex:  # some are large, but their intersection may be small
        return match_one_text((*map(searched, patterns), Repeat(ANY_CHAR, least, most)))
    if not all(automaton.rows for automaton in automata):
        return False
    together = SideBySide([(automaton.alphabet, automaton.rows) for automaton in automata])
    if _is_near(automata, together, least, most):
        return True
    states, seen, num_looked = {(0,) * len(automata)}, set[tuple[int, ...]](), 0
    for length in count():
        if not states or (most is not None and length > most):
            return False
        if length >= least:
            if any(_all_accept(automata, state) for state in states):
                return True
            states -= seen
            seen |= states
        num_looked += 1 + len(states)
        if num_looked > MAX_LOOKS:
            raise UnsupportedRegex(TOO_MANY_PATTERNS)
        states = set().union(*map(together.live_after, states))
    return False


def _is_near(automata: list[Automaton], together: SideBySide, least: int, most: int | None) -> bool:
    """Whether a search that prefers states near to acceptance finds such a string soon."""
    todo, seen = [(0, 0, (0,) * len(automata))], set[tuple[int, tuple[int, ...]]]()
    for _ in range(_SOON):
        if not todo:
            break
        _, negative_length, states = heappop(todo)
        length = -negative_length
        if length >= least and _all_accept(automata, states):
            return True
        reached = together.live_after(states)
        spend(1 + len(reached) * len(automata) // 4)
        for after in reached:
            to_end = [one.to_end[state] for one, state in zip(automata, after, strict=True)]
            key = min(length + 1, least), after
            if key not in seen and (most is None or length + 1 + max(to_end) <= most):
                seen.add(key)
                heappush(todo, (sum(to_end), -length - 1, after))
    return False


def _have_sample(patterns: tuple[str, ...], least: int, most: int | None) -> bool:
    """Whether a sample of one pattern is such a string."""
    return any(
        least <= len(text) <= (len(text) if most is None else most)
        and all(pattern_matches(other, text) for other in patterns)
        for pattern in patterns
        for text in samples(searched(pattern), least)
    )


def _all_accept(automata: list[Automaton], states: tuple[int, ...]) -> bool:
    return all(state in one.accepting for one, state in zip(automata, states, strict=True))
