"""Owns how the numbers of a core schema are spelt: regular expressions of exact numerals, for every
backend.

A library that has its own idea of numbers is given names in their place, and a rule for each name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.regex.numerals import MAX_DIGITS, Bound, Interval, either, numerals
from specguide.guided.regex.parse import NOTHING, literal
from specguide.guided.regex.writer import write
from specguide.guided.schema.core import Core

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_OF_NUMBERS = frozenset({*_BOUNDS, "not"})
_NUMERIC = ("number", "integer")
_STEPS_A_NUMBER = 500
_FEW_DIGITS = 40
_MAX_REGEX = 8_000  # characters; it takes xgrammar a second or two to compile as many
_QUOTE = '\\"'


def number_regex(core: Mapping[str, Any], name: str, most_digits: int = MAX_DIGITS) -> str | None:
    """A regular expression of the numbers of a core schema; None where there are none.

    name:        "number" or "integer"
    most_digits: before the point, where no bound says so; larger numbers have exponents
    """
    if "not" in core and name == "integer":
        return None
    lows = [_bound(core, keyword) for keyword in _BOUNDS[:2] if keyword in core]
    highs = [_bound(core, keyword) for keyword in _BOUNDS[2:] if keyword in core]
    low = max(lows, default=None)
    high = min(highs, key=lambda bound: (bound[0], not bound[1]), default=None)
    spend(_STEPS_A_NUMBER)
    node = numerals(Interval(low, high, "fraction" if "not" in core else name, most_digits))
    return None if node == NOTHING else write(node)


def _bound(core: Mapping[str, Any], keyword: str) -> Bound:
    return Decimal(repr(core[keyword])), keyword.startswith("exclusive")


def spellings(value: int | float) -> Iterable[str]:
    """A number in every plain spelling."""
    number = Decimal(repr(value))
    found = [repr(value), f"{number:f}"]
    if number == number.to_integral_value():
        found.append(f"{number:.0f}")
    return dict.fromkeys(found)


class NamedNumbers:
    """Puts names into schemas in place of their numbers, and rules for these names into an EBNF
    grammar.

    mark: what no schema holds; the names are made of it

    xgrammar takes few spellings of numbers between bounds, few digits behind the point, and
    exponents without end.
    It walks a count of many digits slowly, so numbers without bounds have fewer of them here.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._numbers: dict[str, int] = {}  # by their regular expressions

    def named(self, core: Any) -> Any:
        """A core schema with names, which are strings, for its numbers; what is no core schema
        stays as it is."""
        spend()
        if isinstance(core, list):
            return [self.named(item) for item in core]
        if not isinstance(core, Core):
            return core
        if "enum" in core:
            return {**core, "enum": [self._named_values(value) for value in core["enum"]]}
        types = core.get("type", ())
        numeric = [
            name
            for name in _NUMERIC
            if name == types or (isinstance(types, list) and name in types)
        ]
        rest = {
            key: value if key == "type" else self._named_child(key, value)
            for key, value in core.items()
        }
        if not numeric or "multipleOf" in core:
            return rest
        return self._split(rest, [self._name(core, name) for name in numeric])

    def _named_child(self, keyword: str, value: Any) -> Any:
        if keyword in _MAPS:
            return {name: self.named(child) for name, child in value.items()}
        return self.named(value) if keyword in _CHILDREN else value

    def _split(self, core: dict[str, Any], names: list[str | None]) -> Any:
        """The numbers of a core schema by their names, or its values of other types."""
        kept = {key: core.pop(key) for key in ("$defs",) if key in core}
        found = [name for name in names if name is not None]
        types = core["type"] if isinstance(core["type"], list) else []
        others = [name for name in types if name not in _NUMERIC]
        options: list[Any] = [{"enum": found}] if found else []
        if others:
            bare = {key: value for key, value in core.items() if key not in _OF_NUMBERS}
            options.append({**bare, "type": others})
        if not options:
            raise UnsupportedGuide("no number is within the bounds")
        return {**kept, **(options[0] if len(options) == 1 else {"anyOf": options})}

    def _named_values(self, value: Any) -> Any:
        spend()
        if isinstance(value, list):
            return [self._named_values(item) for item in value]
        if isinstance(value, dict):
            return {name: self._named_values(item) for name, item in value.items()}
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._name_of(write(either(map(literal, spellings(value)))))
        return value

    def _name(self, core: Mapping[str, Any], name: str) -> str | None:
        regex = number_regex(core, name, _FEW_DIGITS)
        return None if regex is None else self._name_of(regex)

    def _name_of(self, regex: str) -> str:
        if len(regex) > _MAX_REGEX:
            raise UnsupportedGuide("a number has too many digits; give it other bounds")
        return f"{self._mark}.{self._numbers.setdefault(regex, len(self._numbers))}#"

    def with_rules(self, grammar: str) -> str:
        """The library's grammar of a schema with names, with rules in place of the names and of its
        own numbers."""
        first, *calls = grammar.split(f"{self._mark}.")
        parts = [first]
        for call in calls:
            number, _, rest = call.partition("#")
            # The library spells a name as a JSON string, or bare in styles other than JSON.
            parts[-1] = parts[-1].removesuffix(_QUOTE)
            parts += [f'" number_{number} "', rest.removeprefix(_QUOTE)]
        before, _, rest = "".join(parts).partition("\nbasic_number ::= ")
        any_number = number_regex({}, "number", _FEW_DIGITS) or ""
        rules = [
            ("basic_number", any_number),
            *((f"number_{i}", regex) for regex, i in self._numbers.items()),
        ]
        return before + rest[rest.find("\n") :] + "".join(_rule(*rule) for rule in rules)


def _rule(name: str, regex: str) -> str:
    return f"{name} ::= Regex({json.dumps(regex)})\n"


_MAPS = frozenset({"properties", "patternProperties", "$defs"})
_CHILDREN = frozenset({"items", "additionalProperties", "prefixItems", "anyOf", "allOf"})
