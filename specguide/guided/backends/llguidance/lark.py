"""Owns the writing of a guide as a grammar in llguidance's Lark syntax."""

from __future__ import annotations

from collections.abc import Callable

from specguide.config import GuideConfig
from specguide.guided.backend import Rewritten, checked_text
from specguide.guided.backends.llguidance.lark_terms import (
    choice_term,
    grammar_rules,
    joined_term,
    json_term,
    regex_term,
)
from specguide.guided.backends.llguidance.structural_tag import structural_tag_rules
from specguide.guided.regex.tree import Both
from specguide.guided.schema.core.nodes import ANY_OBJECT
from specguide.guided.schema.json_values import Json

# Without forcing, rows have every token that a grammar allows, and not only a tokenizer's preferred
# spelling of forced text. The option comes last, so that errors keep the line numbers of the
# grammar.
OPTIONS = '\n%llguidance {"no_forcing": true}\n'


def guide_to_lark(rewritten: Rewritten, limits: GuideConfig) -> str:
    """A guide as a Lark grammar. Raises InvalidGuide when it is malformed, UnsupportedGuide when
    Lark cannot express it."""
    return _RULES[rewritten.kind](rewritten.value, limits) + OPTIONS


def _whole_text(pattern: str | Both) -> str:
    if isinstance(pattern, Both):
        return joined_term(pattern)
    return regex_term(checked_text(pattern, "regex"))


_RULES: dict[str, Callable[[Json, GuideConfig], str]] = {
    "json_schema": lambda schema, limits: "start: " + json_term(schema, limits),
    "json_object": lambda _, limits: "start: " + json_term(ANY_OBJECT, limits),
    "regex": lambda pattern, _: f"start: TEXT\nTEXT: {_whole_text(pattern)}",
    # One terminal for all choices.
    "choice": lambda options, _: "start: CHOICE\nCHOICE: " + choice_term(options),
    "structural_tag": structural_tag_rules,
    "grammar": lambda source, _: grammar_rules(checked_text(source, "grammar")),
}
