"""Owns which form a context-free grammar is written in."""

from __future__ import annotations

import re
from typing import Literal

from specguide.errors import InvalidGuide

_EBNF_ROOT = re.compile(r"^\s*root\s*::=", re.MULTILINE)
_LARK_START = re.compile(r"^\s*[?!]*start\s*(\[[^\]]*\])?(\.-?\d+)?\s*:(?!:)", re.MULTILINE)


def grammar_form(source: str) -> Literal["EBNF", "Lark"]:
    """The form of a grammar, told by its first rule's name. Raises InvalidGuide when it is neither."""
    if _EBNF_ROOT.search(source):
        return "EBNF"
    if _LARK_START.search(source):
        return "Lark"
    raise InvalidGuide("the grammar is neither EBNF (a rule `root ::= …`) nor Lark (a rule `start: …`)",
                       param="grammar")
