"""Owns the writing of a core schema as rules of llguidance's Lark, for schemas that the library's
own reading would restrict too little or too much.

The library allows only a few spellings of numbers between bounds, but numbers without bounds far
beyond a double. So a schema with numbers is written out: the library's own rules, but with exact
numerals. A schema without simple rules (`allOf`, counted properties beside optional ones, multiples
of 3 …) is left to the library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache

from specguide.guided.backends.llguidance.all_multiples import all_multiples
from specguide.guided.backends.llguidance.any_order import any_order
from specguide.guided.backends.llguidance.array_items import array_items
from specguide.guided.backends.llguidance.lark_rules import SchemaRules, content_name
from specguide.guided.backends.llguidance.members import counted, in_order, repeated
from specguide.guided.backends.llguidance.remainders import without_multiples
from specguide.guided.backends.llguidance.schema_terminals import (
    ANY_STRING,
    NoRules,
    NoValue,
    lexemes,
    quoted_pattern,
    scalar_terminals,
    text_literal,
    value_literal,
)
from specguide.guided.backends.llguidance.simple_nodes import is_plain, named_children
from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import (
    NO_ARRAYS,
    NO_OBJECTS,
    Arrays,
    Core,
    CoreSchema,
    Kinds,
    Node,
    Numbers,
    Objects,
    Tracked,
    num_constraints,
    shared_parts,
)
from specguide.guided.schema.core.walk import negates_numbers
from specguide.guided.schema.json_values import TYPES

_ANY = "any"
_LONG = 30  # characters
_NUMERIC = ("number", "integer")


def schema_rules(schema: CoreSchema, whitespace: str, *, is_loose: bool = False) -> SchemaRules:
    """A core schema as rules of Lark.

    whitespace: a regular expression, "" for none
    is_loose:   rules may ignore lengths beside patterns, properties to which several patterns
                apply, and multiples with many remainders

    Raises NoRules.
    """
    return _Rules(schema, is_loose).written(whitespace)


class _Rules:
    """Writes schemas as rules. `_options` gives the alternatives of a value: terminals, and terms
    of rules."""

    def __init__(self, schema: CoreSchema, is_loose: bool) -> None:
        self._rules: dict[str, str] = {}  # bodies by their names
        self._known: dict[str, str] = {}  # names by their bodies
        self._numbers: dict[tuple[Numbers, str], list[str]] = {}  # terminals of numbers
        self._literal = cache(text_literal)  # objects share many names
        # By the parts that nodes share, and by the identities of nodes, which the schema keeps
        # alive.
        self._values_of: dict[int | tuple[int, int, str | None], str] = {}
        self._schema, self._is_loose = schema, is_loose
        self._definitions = schema.definitions
        self._tracked = schema.tracked
        # The library cannot express keys in any order, nor numbers that are not multiples.
        self._is_last = schema.tracked is not None or negates_numbers(schema)

    def written(self, whitespace: str) -> SchemaRules:
        start = self._value(self._schema.root)
        for name, core in self._definitions.items():
            self._define(_definition(name), core)
        return SchemaRules(start, self._rules, whitespace, is_closed=not self._definitions)

    def _define(self, name: str, core: Core) -> None:
        """Add the rule of a definition. Its body may have just got a rule of its own; that rule is
        dropped, so that no other node uses its name."""
        num_before = len(self._rules)
        try:
            body = self._written_value(core)
        except NoValue:
            raise NoRules from None
        is_new = len(self._rules) > num_before and body == next(reversed(self._rules))
        if is_new and body.islower():  # no terminal
            body = self._rules.pop(body)
            self._known[body] = name
        self._rules[name] = body

    def _rule(self, body: str, *, terminal: bool = False) -> str:
        """The name of the rule, or the terminal, with this body."""
        if body not in self._known:
            self._known[body] = name = content_name(body, terminal=terminal)
            self._rules[name] = body
        return self._known[body]

    def _named_terminal(self, body: str) -> str:
        return self._rule(body, terminal=True)

    def _terminal(self, options: Sequence[str]) -> str:
        """The name of a terminal for a choice of terminals. The library takes long to read long
        ones, so each long one is written only once."""
        named = [self._rule(term, terminal=True) if len(term) > _LONG else term for term in options]
        terminals = list(dict.fromkeys(named))
        is_name = len(terminals) == 1 and terminals[0] in self._rules
        return terminals[0] if is_name else self._rule("|".join(terminals), terminal=True)

    def _value(self, core: Core) -> str:
        """The term of a value, written once for nodes with the same parts."""
        known = self._values_of.get(id(core))
        if known is not None:
            return known
        spend(8)
        parts = shared_parts(core) or id(core)
        if parts not in self._values_of:
            self._values_of[parts] = self._written_value(core)
        self._values_of[id(core)] = self._values_of[parts]
        return self._values_of[parts]

    def _written_value(self, core: Core) -> str:
        terminals, terms = self._options(core)
        if terminals:
            terms = [*terms, self._terminal(terminals)]
        if not terms:
            raise NoValue
        return terms[0] if len(terms) == 1 else self._rule("|".join(dict.fromkeys(terms)))

    def _within(self, core: Core) -> str:
        """The term of a part that a value may lack. Raises NoRules, not NoValue, where no value
        fits."""
        try:
            return self._value(core)
        except NoValue:
            raise NoRules from None

    def _options(self, core: Core) -> tuple[list[str], list[str]]:
        if isinstance(core, bool):
            return [], [self._any()] if core else []
        if core.values is not None or core.any_of or core.ref is not None:
            return self._composed(core)
        if not is_plain(core):
            raise NoRules
        terminals: list[str] = []
        terms: list[str] = []
        for name in core.kinds.types or TYPES:
            with suppress(NoValue):
                if name == "array":
                    terms.append(self._array(core.kinds.arrays))
                elif name == "object":
                    terms.append(self._object(core.kinds.objects))
                else:
                    terminals += self._scalar(core, name)
        return terminals, terms

    def _scalar(self, node: Node, name: str) -> list[str]:
        """The terminals of a scalar type."""
        if name not in _NUMERIC:
            return scalar_terminals(node, name, is_loose=self._is_loose)
        key = node.kinds.numbers, name
        if key not in self._numbers:
            self._numbers[key] = self._number(node, name)
        return self._numbers[key]

    def _number(self, node: Node, name: str) -> list[str]:
        numbers = node.kinds.numbers
        if self._is_loose and numbers.multiple_of is not None:
            return self._multiples(numbers, name)
        found, others = without_multiples(
            node, name, self._named_terminal, is_last=self._is_last, is_loose=self._is_loose
        )
        if found is None:
            return others
        return [*others, *scalar_terminals(found, name, is_loose=self._is_loose)]

    def _multiples(self, numbers: Numbers, name: str) -> list[str]:
        """The multiples; where they have too many remainders, all numbers within the bounds."""
        try:
            return all_multiples(numbers, name, self._rules.__setitem__)
        except NoRules:
            return scalar_terminals(Node("", Kinds(numbers=numbers)), name, is_loose=True)

    def _composed(self, node: Node) -> tuple[list[str], list[str]]:
        """The options of a reference, of listed values or of a choice. Raises NoRules where a node
        has more than one of these."""
        is_alone = num_constraints(node) == 1
        if node.ref is not None and is_alone:
            has_value = self._definitions[node.ref] is not False
            return [], [_definition(node.ref)] if has_value else []
        if node.values is not None and is_alone:
            scalars = [value for value in node.values if not isinstance(value, (list, dict))]
            containers = [value for value in node.values if isinstance(value, (list, dict))]
            rules = [self._rule("".join(lexemes(value))) for value in containers]
            return list(map(value_literal, scalars)), rules
        if not is_alone:
            raise NoRules
        terms_of_types = []
        for option in node.any_of:
            with suppress(NoValue):
                terms_of_types.append(self._options(option))
        return [one for terminals, _ in terms_of_types for one in terminals], [
            one for _, terms in terms_of_types for one in terms
        ]

    def _any(self) -> str:
        if _ANY not in self._rules and self._tracked is not None:
            self.of_any()
        elif _ANY not in self._rules:
            self._rules |= _rules_of_any()
            self._known |= {body: name for name, body in _rules_of_any().items()}
        return _ANY

    def of_any(self) -> dict[str, str]:
        """The rule of any value, and all rules that it needs."""
        self._rules[_ANY] = ""  # its arrays and objects refer to it
        terminals = [part for name in TYPES[:4] for part in scalar_terminals(_ANY_VALUE, name)]
        containers = f"{self._array(NO_ARRAYS)}|{self._object(NO_OBJECTS)}"
        self._rules[_ANY] = f"{self._terminal(terminals)}|{containers}"
        return self._rules

    def _array(self, arrays: Arrays) -> str:
        return self._rule(f'"["{array_items(self._rule, self._within, arrays)}"]"')

    def _object(self, objects: Objects) -> str:
        required = objects.required
        children = named_children(objects, self._is_loose)
        values = self._values(children, required)
        members = {name: f'{self._literal(name)}":"{value}' for name, value in values.items()}
        least = (objects.min_properties or 0) - len(required)
        most = None if objects.max_properties is None else objects.max_properties - len(required)
        if most is not None and most < 0:
            raise NoValue
        extra = "" if most == 0 else self._extra(list(children), objects)
        if self._tracked is not None:
            return self._in_any_order(members, extra, objects)
        items = [(member, name in required) for name, member in members.items()]
        if (least > 0 or most is not None) and len(required) < len(items):
            counts = objects.min_properties or 0, objects.max_properties
            return self._rule(f'"{{"{counted(self._rule, items, extra, *counts)}"}}"')
        if least > 0 and not extra:
            raise NoRules
        others = extra if least <= 0 and most is None else ""
        if extra and not others:
            items.append((repeated(extra, max(1, least), most, is_first=True), least > 0))
        return self._rule(f'"{{"{in_order(self._rule, items, others)}"}}"')

    def _values(self, children: Mapping[str, Core], required: Collection[str]) -> dict[str, str]:
        """The values of named properties. A property without values is left out, if it is not
        required."""
        terms = {}
        for name, child in children.items():
            try:
                if child is not False:
                    terms[name] = self._value(child)
            except NoValue:
                if name in required:
                    raise
        return terms

    def _in_any_order(self, members: Mapping[str, str], extra: str, objects: Objects) -> str:
        """An object whose keys come in any order; the guard counts them."""
        if not extra and (objects.min_properties or 0) > len(members):
            raise NoRules
        tracked = (self._tracked or {}).get(id(objects), Tracked())
        rules = {name: self._rule(member) for name, member in members.items()}
        others = [rule for name, rule in rules.items() if name not in tracked.names]
        others += [extra] if extra else []
        if tracked.is_counted and not tracked.names:  # otherwise the count has no bounds
            counts = objects.min_properties or 0, objects.max_properties
            other = self._rule("|".join(others)) if others else ""
            may_hold = other and objects.max_properties != 0
            body = repeated(other, *counts, is_first=True) if may_hold else ""
        else:
            body = any_order(self._rule, others, [rules[name] for name in tracked.names])
        return self._rule(f'"{{"{body}"}}"')

    def _extra(self, names: list[str], objects: Objects) -> str:
        """A property that is not named."""
        keys = []
        terms = []
        for pattern, child in objects.patterns.items():
            key = quoted_pattern(pattern)
            keys.append(key)
            if child is not False:
                terms.append(f'{self._rule(key, terminal=True)}":"{self._within(child)}')
        if objects.additional is not False:
            key = self._terminal([ANY_STRING])
            taken = [*map(self._literal, names), *keys]
            if taken:
                key = self._rule(f"{key}&~({'|'.join(taken)})", terminal=True)
            terms.append(f'{key}":"{self._within(objects.additional)}')
        body = "|".join(terms)
        return body if len(terms) < 2 and len(body) < _LONG else self._rule(body)


@cache
def _rules_of_any() -> dict[str, str]:
    return _Rules(CoreSchema(True, {}), is_loose=False).of_any()


_ANY_VALUE = Node("")


def _definition(name: str) -> str:
    return f"d_{name}"
