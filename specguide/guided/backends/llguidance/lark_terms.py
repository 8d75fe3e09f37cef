"""Owns the writing of a guide's parts as terms of a Lark rule, in llguidance's syntax.

Whitespace between JSON tokens is bounded, and JSON strings spell characters raw where they need no
escape. Regular expressions match the whole of their text, and read `\\d`, `\\w` and `\\s` as ASCII
classes, as xgrammar does.

Source: llguidance docs/syntax.md and docs/json_schema.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import llguidance
from llguidance.gbnf_to_lark import gbnf_to_lark

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.adapters.whitespace import whitespace_regex
from specguide.guided.backends.llguidance.core_rules import core_rules
from specguide.guided.backends.llguidance.lark_rules import SchemaRules
from specguide.guided.backends.llguidance.own_reading import as_llguidance_reads
from specguide.guided.backends.llguidance.schema_terminals import (
    NoRules,
    no_exclusion,
    no_free_rules,
)
from specguide.guided.backends.llguidance.simple_nodes import joins_patterns
from specguide.guided.budget import spend
from specguide.guided.lark.schema import schema_term
from specguide.guided.lark.source import as_lark_reads
from specguide.guided.notations.grammar_form import grammar_form, without_comments
from specguide.guided.regex.tree import Both, Regex
from specguide.guided.regex.writer import write
from specguide.guided.schema.core.emit import emit
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.core.walk import negates_numbers
from specguide.guided.schema.json_values import JsonSchema


def json_term(schema: CoreSchema | JsonSchema, limits: GuideConfig) -> str:
    """A JSON Schema as a term of a Lark rule, with the whitespace of `limits`; a core schema gets
    exact numerals."""
    return str(json_rules(schema, limits))


def json_rules(schema: CoreSchema | JsonSchema, limits: GuideConfig) -> SchemaRules | str:
    """See `json_term`; a schema that is written as rules comes as SchemaRules. Raises
    UnsupportedGuide if neither way enforces it."""
    if not isinstance(schema, CoreSchema):
        return schema_term(as_llguidance_reads(schema), limits)
    try:
        return core_rules(schema, whitespace_regex(limits))
    except NoRules as error:
        if schema.tracked is not None:
            raise no_free_rules(error) from None
        if negates_numbers(schema):  # the library cannot express it
            raise no_exclusion(error) from None
        if joins_patterns(schema):
            raise error.unmerged or UnsupportedGuide(
                "llguidance cannot compile patterns with such long lookaheads beside the other "
                "keywords of the schema; leave out either",
                keyword=error.keyword or "pattern",
            ) from None
        return schema_term(as_llguidance_reads(emit(schema)), limits)


def regex_term(pattern: str) -> str:
    """A regular expression as a term of a Lark rule; it must match the whole of its text."""
    return "/" + llguidance.regex_to_lark(pattern, "dws") + "/"


def joined_term(both: Both) -> str:
    """A terminal of regular expressions that must all match the same text."""
    parts = [*map(_joined, both.items), *(f"~{_joined(excluded)}" for excluded in both.but)]
    return f"({' & '.join(parts)})"


def _joined(node: Regex) -> str:
    return joined_term(node) if isinstance(node, Both) else regex_term(write(node) or "(?:)")


def choice_term(options: Sequence[str]) -> str:
    """A choice of strings as a term of a Lark rule."""
    return " | ".join(json.dumps(option) for option in options)


def grammar_rules(source: str) -> str:
    """A context-free grammar in EBNF or Lark, as Lark. Raises InvalidGuide, which says as which
    form it was read."""
    if grammar_form(source) == "Lark":
        return as_lark_reads(source)
    # for each rule the converter reads all rules again
    spend(4 * len(source) + source.count("::=") * len(source) // 16)
    try:
        return gbnf_to_lark(without_comments(source))
    except Exception as error:  # the converter raises a class of its own and plain Exception
        raise InvalidGuide(
            f"the grammar, read as EBNF, is malformed: {error}", param="grammar"
        ) from error
