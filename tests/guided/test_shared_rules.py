"""Schemas that share the rules of their grammar: each row is as if they did not."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from byte_vocabulary import VOCABULARY

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.backends.llguidance import json_in_lark, structural_tag
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.compile import GrammarCompiler
from specguide.guided.lark.schema import schema_term
from specguide.guided.matcher import allowed_tokens
from specguide.guided.schema.core.nodes import CoreSchema, Kinds, Node, Objects

STRING, NUMBER, WHOLE = ({"type": name} for name in ("string", "number", "integer"))
LIMITS = GuideConfig()
ENDS = ["", "|true", ["| a", "|abc"]] * 9


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


SCHEMAS = [
    {"type": "object"},
    an_object(),
    an_object("name", name=STRING, abc=NUMBER),
    an_object(name=STRING, abc=NUMBER),
    an_object("abc", name=STRING, abc=an_object("name", name=STRING)),
    an_object("a", "b", a=WHOLE, b={"enum": ["name", "abc", 12]}, c={"type": "array"}),
    {**an_object("a", a={"type": ["string", "null"]}), "additionalProperties": False},
    {**an_object(a=NUMBER), "additionalProperties": False},
    {**an_object("n", n={"$ref": "#/$defs/n"}), "$defs": {"n": an_object(n={"$ref": "#/$defs/n"})}},
    {"const": {"name": 12}},
    {},
    {"type": "string"},
    an_object("a", a={"type": "integer", "minimum": 12, "maximum": 120}),
    an_object(a={"type": "array", "items": STRING, "minItems": 1, "maxItems": 2}),
]


def lark(schemas: list[Any]) -> Guide:
    tools = (f'"{i}:" {schema_term(dict(one), LIMITS)}' for i, one in enumerate(schemas))
    return Guide(
        grammar=f'start: tool (" a" tool)?\ntool: {" | ".join(tools)}', backend="llguidance"
    )


def tags(schemas: list[Any]) -> Guide:
    ended = [one for one in schemas if one.get("type") == "object"]
    found = [
        {"begin": f" a{i}", "content": {"type": "json_schema", "json_schema": one}, "end": end}
        for i, (one, end) in enumerate(zip(ended, ENDS, strict=False))
    ]
    tag = {"type": "triggered_tags", "triggers": [" a"], "tags": found, "at_least_one": True}
    return Guide(structural_tag={"type": "structural_tag", "format": tag}, backend="llguidance")


def compiled(guide: Guide) -> CompiledGrammar:
    compiler = GrammarCompiler(VOCABULARY, LIMITS)
    grammar = compiler.compile(guide)
    compiler.close()
    return grammar


def walk_together(one: CompiledGrammar, other: CompiledGrammar, rng: random.Random) -> int:
    """A random walk through both, whose rows must be equal; its length."""
    matchers = [one.matcher(), other.matcher()]
    rows = [np.zeros(VOCABULARY.num_words, np.int32) for _ in matchers]
    for num_taken in range(40):
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.fill(row)
        assert np.array_equal(*rows)
        allowed = allowed_tokens(rows[0])
        readable = [token for token in allowed if token >= 256 or 0x20 <= token < 0x7F]
        token = int(rng.choice(readable or allowed.tolist()))
        assert all([matcher.accept(token) for matcher in matchers])
        if matchers[0].is_terminated:
            return num_taken
    return 40


@pytest.mark.parametrize("guide_of", [lark, tags])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_as_if_nothing_were_shared(guide_of, seed, monkeypatch):
    rng = random.Random(seed)
    guide = guide_of(rng.sample(SCHEMAS, rng.randint(2, len(SCHEMAS))))
    sharing = compiled(guide)
    for module in (json_in_lark, structural_tag):
        monkeypatch.setattr(module, "alternatives", lambda some: " | ".join(map(str, some)))
    apart = compiled(guide)
    lengths = [walk_together(sharing, apart, rng) for _ in range(12)]
    assert max(lengths) > 10


def test_definitions_of_the_same_parts_have_rules_that_there_are() -> None:
    kinds = Kinds(("object",), objects=Objects(additional=Node("", Kinds(("null",)))))
    definitions = {name: Node(f"/$defs/{name}", kinds) for name in ("a", "b")}
    root = Node("", any_of=tuple(Node("", ref=name) for name in definitions))
    found = schema_rules(CoreSchema(root, definitions), "")
    asked = {name for body in found.rules.values() for name in re.findall(r"\b[rd]_?\w+", body)}
    assert asked and asked <= found.rules.keys()
