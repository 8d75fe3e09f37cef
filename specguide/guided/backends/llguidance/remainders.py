"""Owns the terminals of integers that are multiples of one number and not of some others.

A regular expression of them would be long, so each state of their automaton is a terminal of what
may follow there. The numerals have a bounded length, so no terminal leads back to itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count

from specguide.guided.adapters.schema_numbers import integer_numerals
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.budget import spend
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.letters import NOWHERE, rows_of
from specguide.guided.regex.multiples import multiples
from specguide.guided.regex.tree import NOTHING, UnsupportedRegex
from specguide.guided.schema.core.nodes import Node, Numbers
from specguide.guided.schema.core.number_bounds import holds_number
from specguide.guided.schema.json_values import Number, exact

_MAX_STATES = 4_000
_DIGITS = (15, 9, 6, 4, 3)
_ZERO = ord("0")

Terminal = Callable[[str], str]
_Steps = dict[int, int]
"""From a state: the next state by a character's code point."""


def without_multiples(
    node: Node, name: str, terminal: Terminal, *, is_last: bool, is_loose: bool
) -> tuple[Node | None, list[str]]:
    """A node without the multiples that have no short expression, and terminals of the numbers that
    this leaves out; None in place of the node where the terminals have all its numbers.

    terminal: gives the name of a terminal for a body
    is_last:  there is no other way to write the node
    is_loose: see `scalar_terminals`

    Raises NoRules if no terminal of a reasonable size says it.
    """
    numbers = node.kinds.numbers
    has_rest = (
        is_last and numbers.multiple_of is not None and not multiples(exact(numbers.multiple_of))
    )
    if not numbers.not_multiples and not has_rest:
        return node, []
    plain = replace(numbers, not_multiples=())
    if is_loose:
        return replace(node, kinds=replace(node.kinds, numbers=plain)), []
    if numbers.is_fraction:
        raise NoRules("multipleOf")
    terms = [_by_remainder(numbers, terminal)] if holds_number(numbers, whole=True) else []
    if not terms and (name == "number" and numbers.multiple_of is not None):
        raise NoRules("multipleOf")  # it has numbers that are not integers, too
    if (
        name == "integer"
        or numbers.multiple_of is not None
        or not _are_whole(numbers.not_multiples)
    ):
        return None, terms
    fractions = replace(plain, is_fraction=True)
    return replace(node, kinds=replace(node.kinds, numbers=fractions)), terms


def _are_whole(steps: Iterable[Number]) -> bool:
    return all(exact(step).denominator == 1 for step in steps)


def _by_remainder(numbers: Numbers, terminal: Terminal) -> str:
    """The terminal of the integers. Where no bound limits the digits, there are fewer of them the
    more remainders there are. Raises NoRules where there are too many remainders, or no number is
    left."""
    step = exact(1 if numbers.multiple_of is None else numbers.multiple_of).numerator
    others = [exact(one).numerator for one in numbers.not_multiples]
    modulus = math.lcm(step, *others)

    def may_be(rest: int) -> bool:
        return rest % step == 0 and all(rest % one for one in others)

    for num_digits in _DIGITS:
        found = with_remainders(_numerals(numbers, num_digits), modulus, _MAX_STATES, may_be)
        if found is not None:
            return _written(found, terminal)
    raise NoRules("multipleOf")


def _numerals(numbers: Numbers, num_digits: int) -> Automaton:
    node = integer_numerals(numbers, num_digits)
    if node == NOTHING:
        raise NoRules("multipleOf")
    try:
        return automaton(node)
    except UnsupportedRegex:
        raise NoRules("multipleOf") from None


def with_remainders(
    numerals: Automaton, modulus: int, most_states: int, may_be: Callable[[int], bool]
) -> Automaton | None:
    """The automaton of those numerals whose number has a remainder for which `may_be` is true; None
    where it has too many states. Signs and points do not change the remainder."""
    if numerals.is_empty:
        return numerals
    steps = _steps(numerals)
    reached = _reached(steps, modulus, most_states)
    if reached is None:
        return None
    number = count()
    numbers = {  # of the states, by the numerals' state and the remainder
        state: {rest: next(number) for rest in sorted(rests)} for state, rests in reached.items()
    }
    codes = sorted({code for found in steps for code in found})
    alphabet, (letters,) = rows_of([[(code, code, code) for code in codes]])
    rows = []
    for state, rests in numbers.items():
        spend(len(rests) * (1 + len(letters) // 4))
        ways = [(code - _ZERO, numbers.get(steps[state].get(code, NOWHERE))) for code in letters]
        for rest in rests:
            tens = 10 * rest
            rows.append(
                [
                    NOWHERE if to is None else to[(tens + digit) % modulus if digit >= 0 else rest]
                    for digit, to in ways
                ]
            )
    ends = {
        rests[rest]
        for state, rests in numbers.items()
        if state in numerals.accepting
        for rest in rests
        if may_be(rest)
    }
    return Automaton.from_rows(alphabet, rows, ends)


def _steps(numerals: Automaton) -> list[_Steps]:
    return [
        {code: to for low, high, to in edges for code in range(low, high + 1)}
        for edges in numerals.edges
    ]


def _reached(steps: list[_Steps], modulus: int, most_states: int) -> dict[int, set[int]] | None:
    """The remainders that occur at each state of the numerals; None where there are too many in
    total. Finding that takes a small part of the time that their rows would take."""
    reached: defaultdict[int, set[int]] = defaultdict(set, {0: {0}})
    todo: defaultdict[int, set[int]] = defaultdict(set, {0: {0}})
    num_states = 1
    while todo and num_states <= most_states:
        state = next(iter(todo))
        rests = todo.pop(state)
        spend(1 + len(rests) * len(steps[state]) // 8)
        for code, to in steps[state].items():
            digit = code - _ZERO
            after = {(10 * rest + digit) % modulus for rest in rests} if digit >= 0 else rests
            new = after - reached[to]
            if new:
                reached[to] |= new
                todo[to] |= new
                num_states += len(new)
    return reached if num_states <= most_states else None


def _written(found: Automaton, terminal: Terminal) -> str:
    """The name of the terminal of an automaton's texts. Raises NoRules where there are none."""
    if found.is_empty:
        raise NoRules("multipleOf")
    names: dict[int, str] = {}

    def name(state: int) -> str:
        """The name of a state's terminal; "" for the empty text."""
        if state not in names:
            body = _body(found, state, name)
            names[state] = body and terminal(body)
        return names[state]

    return name(0)


def written_states(found: Automaton, name: Callable[[int], str]) -> Iterator[tuple[int, str]]:
    """Each state of an automaton with the body of its terminal. name: gives the terminal of a
    state"""
    for state in range(len(found.edges)):
        yield state, _body(found, state, name) or "//"


def _body(found: Automaton, state: int, name: Callable[[int], str]) -> str:
    """What may follow in a state; "" for the empty text only."""
    ways: dict[int, list[str]] = defaultdict(list)
    for low, high, to in found.edges[state]:
        ways[to].append(chr(low) if low == high else f"{chr(low)}-{chr(high)}")
    body = "|".join([_one_of(chars) + name(to) for to, chars in ways.items()])
    return f"({body})?" if body and state in found.accepting else body


def _one_of(ranges: list[str]) -> str:
    """One character of some ranges as a term; the library reads a literal faster than a class."""
    is_one = len(ranges) == 1 == len(ranges[0])
    return f'"{ranges[0]}"' if is_one else f"/[{''.join(ranges)}]/"
