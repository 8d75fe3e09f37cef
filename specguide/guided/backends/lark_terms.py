"""Owns how the parts of a guide are written as terms of a Lark rule, in llguidance's syntax.

Whitespace between JSON tokens is bounded, and JSON strings spell characters raw where they need no
escape. Regular expressions match the whole of what they stand for and read `\\d`, `\\w` and `\\s`
as ASCII classes, like xgrammar.

Source: llguidance docs/syntax.md and docs/json_schema.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import llguidance
from llguidance.gbnf_to_lark import gbnf_to_lark

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guided.backends.grammar_form import grammar_form, without_comments
from specguide.guided.backends.schema_rules import NoRules, schema_rules
from specguide.guided.backends.whitespace import whitespace_regex
from specguide.guided.budget import spend
from specguide.guided.schema.emit import emit, in_doubles
from specguide.guided.schema.json_values import Json, JsonSchema
from specguide.guided.schema.nodes import CoreSchema


def json_term(schema: CoreSchema | JsonSchema, limits: GuideConfig) -> str:
    """A JSON schema as a term of a Lark rule, with whitespace as `limits` have it; one of the core
    has exact numerals."""
    if not isinstance(schema, CoreSchema):
        return schema_term(schema, limits)
    try:
        return schema_rules(schema, whitespace_regex(limits))
    except NoRules:
        return schema_term(emit(schema), limits)


def schema_term(schema: JsonSchema, limits: GuideConfig) -> str:
    """A JSON schema as a term that leaves it to the library, whose bounds of numbers are
    doubles."""
    if schema is False:
        raise InvalidGuide("the schema `false` is satisfied by nothing", param="json_schema")
    # Without \u escapes, as those would spell a property's name in a way that the library takes for
    # another name.
    options: dict[str, Json] = {"whitespace_flexible": False, "json_allowed_escapes": 'nrbtf\\"'}
    if limits.max_whitespace > 0:
        options["whitespace_pattern"] = whitespace_regex(limits)
    bounded = {} if schema is True else in_doubles(schema)
    bounded["x-guidance"] = options
    return "%json " + json.dumps(bounded)


def regex_term(pattern: str) -> str:
    """A regular expression as a term of a Lark rule; matches the whole of what it stands for."""
    return "/" + llguidance.regex_to_lark(pattern, "dws") + "/"


def choice_term(options: Sequence[str]) -> str:
    """Any one of some strings as a term of a Lark rule."""
    return " | ".join(json.dumps(option) for option in options)


def grammar_rules(source: str) -> str:
    """A context-free grammar, EBNF or Lark, as Lark. Raises InvalidGuide saying as which of them it
    was read."""
    if grammar_form(source) == "Lark":
        return source
    spend(
        4 * len(source) + source.count("::=") * len(source) // 16
    )  # the converter reads all rules again for each
    try:
        return gbnf_to_lark(without_comments(source))
    except Exception as error:  # the converter raises its own class and plain Exception
        raise InvalidGuide(
            f"the grammar, read as EBNF, is malformed: {error}", param="grammar"
        ) from error
