"""Owns the terminals of all multiples of a number, in the library's own spellings: of any length,
without exponents, and behind a point with exactly as many digits as the step has (or fewer if the
step is 0.01 or another power of ten).

They lead back to themselves, which the library's own terminals must not: they are only for
outlines.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import gcd

from specguide.guided.adapters.schema_numbers import interval_of
from specguide.guided.backends.llguidance.lark_rules import content_name
from specguide.guided.backends.llguidance.remainders import with_remainders, written_states
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.decimals import digit_from
from specguide.guided.regex.multiples import multiples, num_places
from specguide.guided.regex.numerals import endless_numerals
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import Repeat, UnsupportedRegex, concat, literal
from specguide.guided.schema.core.nodes import Numbers
from specguide.guided.schema.json_values import exact

_MAX_STATES = 20_000
_MAX_SAID = 4_000
_ANY_DIGITS = Repeat(digit_from(0, 9), 1, None)

Put = Callable[[str, str], None]


def all_multiples(numbers: Numbers, name: str, put: Put) -> list[str]:
    """The names of terminals of the multiples within the bounds; each multiple matches one of them.

    name: "number" or "integer"
    put:  takes the name of a terminal, and its body

    Raises NoRules where there are too many remainders.
    """
    step = exact(1 if numbers.multiple_of is None else numbers.multiple_of)
    places = num_places(step)
    if places is None:
        raise NoRules("multipleOf")
    units = int(step * 10**places)
    try:
        terms = [_multiples(numbers, 0, units // gcd(units, 10**places), put)]
        if places and name == "number":
            terms.append(_multiples(numbers, places, units, put))
    except UnsupportedRegex:
        raise NoRules("multipleOf") from None
    return [one for one in terms if one is not None]


def _multiples(numbers: Numbers, places: int, units: int, put: Put) -> str | None:
    """The name of the first terminal of the multiples with up to `places` digits behind the point;
    None where there are no such multiples. The point is skipped: digits are read as those of an
    integer."""
    kind = "number" if places else "integer"
    numerals = automaton(endless_numerals(interval_of(numbers, kind)))
    if places:
        fewest = places if units > 1 else 1
        point = (literal("."), Repeat(digit_from(0, 9), fewest, places))
        numerals &= automaton(concat(Repeat(literal("-"), 0, 1), _ANY_DIGITS, *point))
    last_digits = None if places else _by_last_digits(numerals, units)
    found = _by_remainder(numerals, units) if last_digits is None else last_digits
    if len(found.edges) > _MAX_SAID:
        raise NoRules("multipleOf")
    if found.is_empty:
        return None
    name = content_name(f"{numbers} {places}", terminal=True)
    for state, body in written_states(found, f"{name}S{{}}".format):
        put(f"{name}S{state}", body)
    return f"{name}S0"


def _by_last_digits(numerals: Automaton, units: int) -> Automaton | None:
    """The multiples, where their last digits decide; else None."""
    factors = multiples(Fraction(units))
    return None if factors is None else numerals & automaton(parse(factors))


def _by_remainder(numerals: Automaton, units: int) -> Automaton:
    found = with_remainders(numerals, units, _MAX_STATES, lambda rest: rest == 0)
    if found is None:
        raise NoRules("multipleOf")
    return found
