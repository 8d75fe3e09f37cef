"""Owns how a JSON schema is written as a grammar in xgrammar's EBNF: by xgrammar, but for the
whitespace.

The library has an option for a number of characters between two JSON tokens, and none for more.
"""

from __future__ import annotations

import itertools
import string

import xgrammar as xgr

from specguide.config import GuideConfig
from specguide.guided.budget import spend

_CHARACTERS_A_STEP = 2_000
_RULE = "whitespace_between"


def schema_ebnf(schema: str, limits: GuideConfig, *, any_order: bool = False) -> str:
    """The grammar of a schema's JSON text, with whitespace as `limits` have it.

    any_order: properties may come in any order, and none is required

    Raises what xgrammar raises.
    """
    if limits.max_whitespace == 0:
        return str(
            xgr.Grammar.from_json_schema(
                schema,
                any_whitespace=False,
                separators=(",", ":"),
                strict_mode=False,
                any_order=any_order,
            )
        )
    # A number of its own tells the library's rules for whitespace from what the schema spells.
    mark = next(number for number in itertools.count(999_983) if not _holds(schema, str(number)))
    grammar = str(
        xgr.Grammar.from_json_schema(
            schema, strict_mode=False, max_whitespace_cnt=mark, any_order=any_order
        )
    )
    most = limits.max_indent
    indent = f' | "\\n" [ ]{{0,{most}}} | "\\n" [\\t]{{0,{most}}}' if most else ""
    rule = f"{_RULE} ::= [ \\t\\n\\r]{{0,{limits.max_whitespace}}}{indent}\n"
    *calls, last = grammar.split(f"{{0, {mark}}}")
    return "".join(_without_callee(call) + _RULE for call in calls) + last + rule


def _holds(schema: str, number: str) -> bool:
    spend(1 + len(schema) // _CHARACTERS_A_STEP)  # a schema may hold very many numbers
    return number in schema


def _without_callee(grammar: str) -> str:
    """A grammar up to a call of the library's rule for whitespace, or one of its copies, which have
    numbers."""
    return grammar.rstrip(string.digits).removesuffix("_").removesuffix("whitespace")
