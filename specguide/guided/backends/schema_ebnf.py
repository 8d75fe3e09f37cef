"""Owns how a JSON schema is written as a grammar in xgrammar's EBNF: by xgrammar, but for the whitespace.

The library has an option for a number of characters between two JSON tokens, and none for more.
"""

from __future__ import annotations

import itertools
import re

import xgrammar as xgr

from specguide.config import GuideConfig

_RULE = "whitespace_between"
_CALL = r"\bwhitespace(?:_[0-9]+)?\{0, %d\}"


def schema_ebnf(schema: str, limits: GuideConfig, *, any_order: bool = False) -> str:
    """The grammar of a schema's JSON text, with whitespace as `limits` have it.

    any_order: properties may come in any order, and none is required

    Raises what xgrammar raises.
    """
    if limits.max_whitespace == 0:
        return str(xgr.Grammar.from_json_schema(
            schema, any_whitespace=False, separators=(",", ":"), strict_mode=False, any_order=any_order))
    # A number of its own tells the library's rules for whitespace from what the schema spells.
    mark = next(number for number in itertools.count(999_983) if str(number) not in schema)
    grammar = str(xgr.Grammar.from_json_schema(
        schema, strict_mode=False, max_whitespace_cnt=mark, any_order=any_order))
    most = limits.max_indent
    indent = f' | "\\n" [ ]{{0,{most}}} | "\\n" [\\t]{{0,{most}}}' if most else ""
    rule = f"{_RULE} ::= [ \\t\\n\\r]{{0,{limits.max_whitespace}}}{indent}\n"
    return re.sub(_CALL % mark, _RULE, grammar) + rule
