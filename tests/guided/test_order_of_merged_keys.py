"""Keys have one order where something holds at once: in the rules of a merged core, in what the
library makes of the core, and in what is known of its ends."""

from __future__ import annotations

import random
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, backend, num_tokens, takes
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lowered_schemas import lowered

from specguide import Guide, GuideConfig, native
from specguide.bench.instances import draw
from specguide.errors import InvalidGuide
from specguide.guided.backend import Written
from specguide.guided.backends import CompiledGrammar
from specguide.guided.backends.llguidance.core_rules import core_rules
from specguide.guided.backends.llguidance.outline import outline_of
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.compile import GrammarCompiler
from specguide.guided.lark.schema import schema_term
from specguide.guided.schema.core.emit import emit
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.wrappers.endings import EndingGrammar

NAMES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=2, unique=True)
VALUES = st.sampled_from([{"type": "boolean"}, {"enum": [True, 1]}, {"enum": [False]}, True])
TRIE = native.TokenTrie(VOCABULARY.native)
COMPACT = GuideConfig(max_whitespace=0, isolate_compiles=False)


def parts() -> st.SearchStrategy[Any]:
    """Subschemas that name properties, by themselves and in choices."""
    asked = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1, max_size=2),
            "required": NAMES,
        },
    )
    depends = st.dictionaries(st.sampled_from("abcd"), st.one_of(NAMES, asked), max_size=2)

    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        some = st.lists(inner, min_size=2, max_size=2)
        return st.one_of(
            st.builds(lambda own, ways: {**own, "anyOf": ways}, asked, some),
            st.builds(lambda own, both: {**own, "allOf": both}, asked, some),
            depends.map(lambda found: {"dependencies": found}),
        )

    return st.recursive(asked, deeper, max_leaves=4)


def merged_core(all_of: list[Any]) -> CoreSchema:
    """The core of what holds at once; only of schemas that have instances, and more to say."""
    draft = "http://json-schema.org/draft-07/schema#"
    try:
        short = {"additionalProperties": {"type": "boolean"}}
        return lowered({"$schema": draft, "type": "object", "allOf": [*all_of, short]})
    except InvalidGuide:
        assume(False)
        raise


def compiled(term: str) -> CompiledGrammar:
    text = f"start: {term}\n" + '%llguidance {"no_forcing": true}\n'
    return backend("llguidance", True).compile(Written("json_schema", "lark", text), COMPACT)


def by_the_library(core: CoreSchema) -> tuple[CompiledGrammar, str]:
    """The grammar that the library makes of a core, and the text that it is given."""
    term = schema_term(emit(core), COMPACT)
    try:
        return compiled(term), f"start: {term}\n"
    except InvalidGuide:  # it has no instance
        assume(False)
        raise


def drawn(grammar: CompiledGrammar, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    found = (draw(grammar.matcher(), rng, 60, VOCABULARY) for _ in range(4))
    return [text.encode() for text in found if text is not None]


@given(st.lists(parts(), min_size=2, max_size=3), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_rules_have_the_order_of_the_library(all_of, seed):
    core = merged_core(all_of)
    library, _ = by_the_library(core)
    try:
        rules = core_rules(core, "")
    except NoRules:
        assume(False)
        raise
    for text in drawn(compiled(str(rules)), seed):
        assert takes(library, text), text


@given(st.lists(parts(), min_size=2, max_size=3), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_ends_are_known_of_every_order_of_the_library(all_of, seed):
    core = merged_core(all_of)
    library, text = by_the_library(core)
    outline = outline_of(text, core)
    assert outline is not None
    ends = native.Endings(outline.form, outline.text, TRIE, native.AutomatonPool(1 << 20))
    for text in drawn(library, seed):
        assert all(ends.num_missing(text[:length]) > 0 for length in range(len(text))), text
        assert ends.num_missing(text) == 1


def depends(name: str, *names: str) -> dict[str, Any]:
    return {"dependencies": {name: list(names)}}


@pytest.mark.parametrize(
    ("all_of", "begun", "rest"),
    [
        ([depends("a", "b"), {"required": ["a"]}], b'{"a":', '0,"b":0}'),
        ([depends("a", "b"), depends("b", "c"), {"required": ["a"]}], b'{"a":0,', '"b":0,"c":0}'),
        (
            [{"anyOf": [depends("a", "c"), {"required": ["b"]}]}, {"required": ["a"]}],
            b'{"b":',
            '0,"a":0}',
        ),
    ],
)
def test_names_that_are_only_required_have_the_order_that_they_had(all_of, begun, rest):
    grammar = GrammarCompiler(VOCABULARY, GuideConfig(isolate_compiles=False)).compile(
        Guide(
            json_schema={
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "allOf": all_of,
            }
        )
    )
    assert isinstance(grammar, EndingGrammar) and grammar.endings.is_exact
    assert all(map(grammar.matcher().accept, begun))
    assert grammar.endings.num_missing(begun) == num_tokens(rest) + 1
