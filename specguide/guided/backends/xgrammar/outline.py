"""Owns the outline of xgrammar's texts: the same grammar in its EBNF, or unchanged in Lark."""

from __future__ import annotations

import json
from collections.abc import Callable

import xgrammar as xgr

from specguide.guided.backend import Outline

_MOST_CHARACTERS = 2_000_000


def outline_of(form: str, text: str) -> Outline | None:
    """The outline of a text in a form; None where the text is too long, or xgrammar refuses it."""
    if len(text) > _MOST_CHARACTERS:
        return None
    try:
        return _OUTLINES[form](text)
    except (RuntimeError, ValueError):
        return None


def _of_tag(tag: str) -> Outline:
    return Outline("ebnf", str(xgr.Grammar.from_structural_tag(json.loads(tag))))


_OUTLINES: dict[str, Callable[[str], Outline]] = {
    "ebnf": lambda text: Outline("ebnf", text),
    "own_ebnf": lambda text: Outline("ebnf", text),
    "lark": lambda text: Outline("lark", text),
    "regex": lambda pattern: Outline("ebnf", str(xgr.Grammar.from_regex(pattern))),
    "structural_tag": _of_tag,
    "structural_tag_with_grammar": _of_tag,
}
