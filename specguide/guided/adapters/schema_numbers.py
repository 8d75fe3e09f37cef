"""Owns the spelling of a core schema's numbers: exact regular expressions of numerals, for every
backend.

Where a library would read numbers in its own way, it is given names in their place, and a rule for
each name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.regex.decimals import MAX_DIGITS
from specguide.guided.regex.numerals import Interval, numerals
from specguide.guided.regex.tree import NOTHING, Regex, either, literal
from specguide.guided.regex.writer import write
from specguide.guided.schema.core.nodes import (
    NO_NUMBERS,
    Core,
    CoreSchema,
    Node,
    Numbers,
    any_of,
    is_constrained,
    one_of_values,
)
from specguide.guided.schema.core.number_bounds import bounds
from specguide.guided.schema.core.walk import with_children
from specguide.guided.schema.json_values import TYPES, Json, Number, is_number

_NUMERIC = ("number", "integer")
_STEPS_A_NUMBER = 500
_FEW_DIGITS = 40
_MAX_REGEX = 8_000  # characters; xgrammar takes a second or two to compile that many
_DIGITS = 6
_QUOTE = '\\"'


def number_regex(numbers: Numbers, name: str, most_digits: int = MAX_DIGITS) -> str | None:
    """A regular expression of numbers; None where there are none.

    name:        "number" or "integer"
    most_digits: most digits before the point where no bound says so; larger numbers need exponents

    Raises UnsupportedGuide for multiples that have no short expression.
    """
    if numbers.is_fraction and name == "integer":
        return None
    spend(_STEPS_A_NUMBER)
    if numbers.not_multiples:
        raise UnsupportedGuide(
            "xgrammar cannot exclude multiples of a number; leave out the multipleOf inside `not`"
        )
    return _written(interval_of(numbers, "fraction" if numbers.is_fraction else name, most_digits))


def integer_numerals(numbers: Numbers, most_digits: int) -> Regex:
    """A tree of the integers within the bounds; where these do not limit the length, of at most
    `most_digits` digits."""
    return numerals(interval_of(numbers, "integer", most_digits))


def interval_of(numbers: Numbers, kind: str, most_digits: int = MAX_DIGITS) -> Interval:
    """The bounds of numbers as an Interval."""
    return Interval(*bounds(numbers, _decimal), kind, most_digits)


def _decimal(number: Number) -> Decimal:
    return Decimal(repr(number))


@lru_cache(maxsize=1024)
def _written(interval: Interval) -> str | None:
    """A regular expression of an interval's numerals; None where there are none. Cached, since
    nearly all schemas use the same intervals: no bounds, at least 0, 1 to 100."""
    node = numerals(interval)
    return None if node == NOTHING else write(node)


def spellings(value: Number) -> Iterable[str]:
    """All plain spellings of a number."""
    number = _decimal(value)
    found = [repr(value), f"{number:f}"]
    if number == number.to_integral_value():
        found.append(f"{number:.0f}")
    if number.is_zero() and number.is_signed():
        found += spellings(-value)
    return dict.fromkeys(found)


class NamedNumbers:
    """Replaces the numbers in schemas by names, and adds rules for these names to an EBNF grammar.

    mark:    a number that occurs in no schema; the names are made of it
    is_bare: names are numbers themselves, for styles that write each value's type beside it

    xgrammar allows few spellings of numbers between bounds, few digits behind the point, and
    exponents of any length. It is slow with counts of many digits, so numbers without bounds have
    fewer digits here.
    """

    def __init__(self, mark: int, is_bare: bool = False) -> None:
        self.num_given = 0
        """Number of names that were given out."""
        self._mark, self._is_bare = mark, is_bare
        self._numbers: dict[str, int] = {}  # numbers of the names, by regular expression

    def named(self, schema: CoreSchema) -> CoreSchema:
        """A core schema with names, which are strings, in place of its numbers. Raises
        UnsupportedGuide where no number is within the bounds, or a rule is too long."""
        definitions = {name: self._named(core) for name, core in schema.definitions.items()}
        return CoreSchema(self._named(schema.root), definitions)

    def _named(self, core: Core) -> Core:
        spend()
        if isinstance(core, bool):
            return core
        if core.values is not None:
            return replace(core, values=tuple(map(self._named_value, core.values)))
        node = _with_types(with_children(core, self._named))
        numeric = [name for name in _NUMERIC if name in (node.kinds.types or ())]
        if not numeric or core.kinds.numbers.multiple_of is not None:
            return node
        return self._split(node, numeric)

    def _split(self, node: Node, numeric: list[str]) -> Core:
        """A node's alternatives: the names of its numbers, and its values of other types."""
        names = (self._name(node.kinds.numbers, name) for name in numeric)
        present = [name for name in names if name is not None]
        others = tuple(name for name in node.kinds.types or () if name not in _NUMERIC)
        left = replace(node.kinds, types=others, numbers=NO_NUMBERS)
        if not present and not others:
            raise UnsupportedGuide("the schema has numbers whose bounds allow none; widen them")
        return any_of(
            node.path,
            [one_of_values(node.path, present), bool(others) and replace(node, kinds=left)],
        )

    def _named_value(self, value: Json) -> Json:
        spend()
        if isinstance(value, list):
            return [self._named_value(item) for item in value]
        if isinstance(value, dict):
            return {name: self._named_value(item) for name, item in value.items()}
        if is_number(value):
            return self._number(write(either(map(literal, spellings(value)))))
        return value

    def _name(self, numbers: Numbers, name: str) -> str | int | None:
        regex = number_regex(numbers, name, _FEW_DIGITS)
        return None if regex is None else self._number(regex)

    def _number(self, regex: str) -> str | int:
        return (
            int(f"{self._mark}{self._given(regex):0{_DIGITS}}")
            if self._is_bare
            else (self.name_of(regex))
        )

    def name_of(self, regex: str) -> str:
        """A name, which is a string, for the texts of a regular expression. Raises UnsupportedGuide
        where the expression is too long."""
        return f"#{self._mark}.{self._given(regex)}#"

    def _given(self, regex: str) -> int:
        if len(regex) > _MAX_REGEX:
            raise UnsupportedGuide(
                "the bounds of a number need an expression of more than "
                f"{_MAX_REGEX} characters in xgrammar; give bounds with fewer digits"
            )
        self.num_given += 1
        return self._numbers.setdefault(regex, len(self._numbers))

    def with_rules(self, grammar: str) -> str:
        """The library's grammar of a schema with names, with rules in place of the names and of the
        library's own numbers."""
        first, *calls = grammar.split(f"#{self._mark}.")
        parts = [first]
        for call in calls:
            number, _, rest = call.partition("#")
            # The library spells a name as a JSON string, or bare in styles other than JSON.
            parts[-1] = parts[-1].removesuffix(_QUOTE)
            parts += [f'" number_{number} "', rest.removeprefix(_QUOTE)]
        first, *calls = "".join(parts).split(str(self._mark)) if self._is_bare else ["".join(parts)]
        bare = (f'" number_{int(call[:_DIGITS])} "{call[_DIGITS:]}' for call in calls)
        before, _, rest = "".join((first, *bare)).partition("\nbasic_number ::= ")
        any_number = number_regex(NO_NUMBERS, "number", _FEW_DIGITS) or ""
        rules = [
            ("basic_number", any_number),
            *((f"number_{i}", regex) for regex, i in self._numbers.items()),
        ]
        return before + rest[rest.find("\n") :] + "".join(_rule(*rule) for rule in rules)


def _with_types(node: Node) -> Node:
    """The node, with all types listed where it has keywords of some type but lists no types.
    Otherwise xgrammar would take the type of the first such keyword, and no others."""
    if node.kinds.types is not None or not is_constrained(node.kinds):
        return node
    return replace(node, kinds=replace(node.kinds, types=tuple(TYPES)))


def _rule(name: str, regex: str) -> str:
    return f"{name} ::= Regex({json.dumps(regex, ensure_ascii=False)})\n"
