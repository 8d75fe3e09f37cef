"""Owns the writing of a JSON Schema in xgrammar's EBNF: xgrammar writes it, except numbers and
whitespace.

For whitespace between two JSON tokens, the library can only bound the number of characters.
"""

from __future__ import annotations

import itertools
import json
import string
from collections.abc import Callable
from dataclasses import dataclass

import xgrammar as xgr

from specguide.config import GuideConfig
from specguide.guided.adapters.schema_numbers import NamedNumbers
from specguide.guided.backends.xgrammar.absent_names import AbsentNames
from specguide.guided.backends.xgrammar.escapes import with_closed_escapes
from specguide.guided.backends.xgrammar.surrogates import without_surrogates_in_strings
from specguide.guided.budget import spend
from specguide.guided.schema.core.emit import emit
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.json_values import JsonSchema

NamesOfStrings = Callable[[NamedNumbers, CoreSchema], CoreSchema]
_MARK = 999_983
_CHARACTERS_A_STEP = 2_000
_RULE = "whitespace_between"
_ESCAPED = r""" | ("\\" basic_escape basic_string_sub)"""


def schema_ebnf(
    schema: CoreSchema | JsonSchema, limits: GuideConfig, *, any_order: bool = False
) -> str:
    """The grammar of a schema's JSON text, with exact numbers, and with the whitespace of `limits`.

    any_order: properties may come in any order, and none is required

    Raises the errors of xgrammar, and UnsupportedGuide for numbers that cannot be expressed.
    """
    absent = AbsentNames()
    named = with_names(schema, absent.named)
    if limits.max_whitespace == 0:
        grammar = xgr.Grammar.from_json_schema(
            named.text,
            any_whitespace=False,
            separators=(",", ":"),
            strict_mode=False,
            any_order=any_order,
        )
        return named.numbers.with_rules(absent.without_members(_printed(grammar)))
    grammar = xgr.Grammar.from_json_schema(
        named.text, strict_mode=False, max_whitespace_cnt=named.mark, any_order=any_order
    )
    printed = absent.without_members(_printed(grammar))
    return named.numbers.with_rules(_with_whitespace(printed, named.mark, limits))


def _printed(grammar: xgr.Grammar) -> str:
    """The grammar's text. Names of properties that the schema does not name get no escapes at
    positions up to which they equal a named one: an escape could spell that name."""
    rules = (
        rule.replace(_ESCAPED, "") if "_addl_key_" in rule.partition(" ::= ")[0] else rule
        for rule in str(grammar).split("\n")
    )
    return without_surrogates_in_strings(with_closed_escapes("\n".join(rules)))


@dataclass(frozen=True)
class NamedSchema:
    """The JSON of a schema, with names for its numbers if it is a core schema.

    mark: a number that occurs in the text only in these names; it separates the library's rules
          from texts of the schema
    """

    json: JsonSchema
    text: str
    numbers: NamedNumbers
    mark: int


def with_names(
    schema: CoreSchema | JsonSchema,
    strings: NamesOfStrings | None = None,
    *,
    are_bare: bool = False,
) -> NamedSchema:
    """A schema with names for its numbers, and for some of its strings. Raises UnsupportedGuide for
    what cannot be expressed.

    strings:  puts names into a schema that stand for rules of strings
    are_bare: the names of numbers are numbers
    """
    named = _marked(schema, _MARK, strings, are_bare)
    spend(1 + len(named.text) // _CHARACTERS_A_STEP)
    if named.text.count(str(_MARK)) == named.numbers.num_given:
        return named
    return _marked(schema, _free_mark(named.text), strings, are_bare)


def _marked(
    schema: CoreSchema | JsonSchema, mark: int, strings: NamesOfStrings | None, are_bare: bool
) -> NamedSchema:
    numbers = NamedNumbers(mark, are_bare)
    if strings is not None and isinstance(schema, CoreSchema):
        schema = strings(numbers, schema)
    named = emit(numbers.named(schema)) if isinstance(schema, CoreSchema) else schema
    text = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    return NamedSchema(named, text, numbers, mark)


def _free_mark(text: str) -> int:
    """A number that does not occur in a text."""
    return next(number for number in itertools.count(_MARK) if not _holds(text, str(number)))


def _with_whitespace(grammar: str, mark: int, limits: GuideConfig) -> str:
    most = limits.max_indent
    indent = f' | "\\n" [ ]{{0,{most}}} | "\\n" [\\t]{{0,{most}}}' if most else ""
    rule = f"{_RULE} ::= [ \\t\\n\\r]{{0,{limits.max_whitespace}}}{indent}\n"
    *calls, last = grammar.split(f"{{0, {mark}}}")
    return "".join(_without_callee(call) + _RULE for call in calls) + last + rule


def _holds(schema: str, number: str) -> bool:
    spend(1 + len(schema) // _CHARACTERS_A_STEP)  # a schema may contain very many numbers
    return number in schema


def _without_callee(grammar: str) -> str:
    """The grammar before a call of the library's whitespace rule, without the rule's name; copies
    of the rule have a number behind the name."""
    return grammar.rstrip(string.digits).removesuffix("_").removesuffix("whitespace")
