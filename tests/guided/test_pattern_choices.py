"""Choices between patterns that hold at once are not multiplied out: each is one pattern."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_schemas import is_valid, lowered, plain

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.pruning.prune import prune

TEXTS = ["".join(text) for num in range(5) for text in itertools.product("ab1", repeat=num)]
INSTANCES: list[Any] = [*TEXTS, "é", 0, 1.5, None, [], {"a": 1}]

_LEAVES = st.one_of(
    st.builds(
        lambda pattern: {"pattern": pattern},
        st.sampled_from(["^a", "b$", "a1", "^[ab]*$", "^...?$", "1.*b", "^(?!a)"]),
    ),
    st.builds(
        lambda types: {"type": types},
        st.sampled_from(["string", "integer", "number", ["string", "null"]]),
    ),
    st.sampled_from([{}, {"minLength": 2}, {"maxLength": 3}, {"const": "ab"}, {"required": ["a"]}]),
)


def _beside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.builds(lambda parts: {"anyOf": parts}, several),
        st.builds(lambda parts: {"allOf": parts}, several),
        st.builds(lambda part: {"not": part}, inner),
    )


SCHEMAS = st.builds(
    lambda first, second: {"allOf": [{"anyOf": first}, {"anyOf": second}]},
    *[st.lists(st.recursive(_LEAVES, _beside, max_leaves=5), min_size=2, max_size=3)] * 2,
)


@settings(max_examples=200, deadline=None)
@given(schema=SCHEMAS)
def test_joined_choices_have_the_same_instances(schema: Any) -> None:
    try:
        core = lowered(schema)
    except InvalidGuide:
        return
    instances = [one for one in INSTANCES if is_valid(schema, one)]
    try:
        result = plain(prune(merge(core, patterns_apart=True)))
    except UnsupportedGuide as error:
        assert not instances or "no value" not in str(error)
        return
    assert [one for one in INSTANCES if is_valid(result, one)] == instances


ANY_OF_ALL = {
    "type": "string",
    "maxLength": 20,
    "allOf": [
        {"anyOf": [{"pattern": f"^{start}"} for start in "abcde"]},
        {"anyOf": [{"pattern": f"{end}$"} for end in "vwxyz"]},
        {"anyOf": [{"pattern": str(i) * 12} for i in range(1, 4)]},
        {"not": {"anyOf": [{"pattern": "^a"}, {"pattern": "z$"}]}},
    ],
}


def test_choices_of_patterns_become_one_string() -> None:
    result = merge(lowered(ANY_OF_ALL), patterns_apart=True)
    assert not result.definitions and not isinstance(result.root, bool)
    assert not result.root.any_of and result.root.kinds.types == ("string",)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("b" + "2" * 12 + "v", True),
        ("e" + "3" * 18 + "y", True),
        ("e" + "3" * 19 + "y", False),
        ("a" + "2" * 12 + "v", False),
        ("b" + "2" * 11 + "v", False),
        ("b" + "2" * 12 + "z", False),
    ],
)
def test_a_grammar_of_such_choices_takes_their_texts(text: str, fits: bool) -> None:
    grammar = GrammarCompiler(VOCABULARY, GuideConfig()).compile(Guide(json_schema=ANY_OF_ALL))
    assert takes(grammar, f'"{text}"') == fits
