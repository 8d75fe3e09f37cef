"""Owns the special tokens in Lark grammars: their names, such as `<|end|>`, are replaced by ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from specguide.guide import Guide
from specguide.guided.lark.source import with_token_ids
from specguide.guided.notations.grammar_form import grammar_form
from specguide.guided.schema.json_values import Json


def with_special_ids(guide: Guide, ids: Mapping[str, int]) -> Guide:
    """The guide with ids in place of the names of special tokens, also in grammars inside of a tag.

    ids: token ids by name
    """
    source = guide.source()
    if "<" not in source or not any(name in source for name in ids):
        return guide
    if guide.grammar is not None:
        return replace(guide, grammar=_grammar(source, ids))
    if guide.structural_tag is not None:
        return replace(guide, structural_tag=_tag(json.loads(source), ids))
    return guide


def _grammar(source: str, ids: Mapping[str, int]) -> str:
    return with_token_ids(source, ids) if grammar_form(source) == "Lark" else source


def _tag(node: Json, ids: Mapping[str, int]) -> Json:
    if isinstance(node, list):
        return list(map(partial(_tag, ids=ids), node))
    if not isinstance(node, dict):
        return node
    found = {name: _tag(value, ids) for name, value in node.items()}
    if node.get("type") == "grammar" and isinstance(node.get("grammar"), str):
        found["grammar"] = _grammar(node["grammar"], ids)
    return found
