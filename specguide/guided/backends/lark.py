"""Owns how a guide is written as a grammar in llguidance's Lark syntax."""

from __future__ import annotations

import json

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends.base import checked_source, schema_or_tag
from specguide.guided.backends.lark_terms import (
    choice_term,
    grammar_rules,
    json_term,
    regex_term,
)
from specguide.guided.backends.structural_tag import structural_tag_rules
from specguide.guided.schema.core import Core

# Rows have every token that a grammar allows, not the one spelling of forced text that a tokenizer
# prefers. It stands last, so that line numbers in errors are those of the grammar given.
_OPTIONS = '\n%llguidance {"no_forcing": true}\n'


def guide_to_lark(guide: Guide, limits: GuideConfig) -> str:
    """A guide as a Lark grammar. Raises InvalidGuide when it is malformed, UnsupportedGuide when
    Lark lacks a form."""
    source = checked_source(guide)
    if guide.kind == "json_schema":
        rules = "start: " + json_term(schema_or_tag(guide), limits)
    elif guide.kind == "json_object":
        rules = "start: " + json_term(Core("", type="object"), limits)
    elif guide.kind == "regex":
        rules = "start: " + regex_term(source)
    elif guide.kind == "choice":
        rules = "start: CHOICE\nCHOICE: " + choice_term(
            json.loads(source)
        )  # one terminal, however many
    elif guide.kind == "structural_tag":
        rules = structural_tag_rules(schema_or_tag(guide), limits)
    else:
        rules = grammar_rules(source)
    return rules + _OPTIONS
