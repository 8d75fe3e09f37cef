"""Calls of tools end within max_tokens, whose marks are special tokens, as most models' are."""

from __future__ import annotations

import random

import pytest
from call_messages import (
    ANSWER,
    FORMATS,
    MARKS,
    PLAIN,
    VOCABULARY,
    asked,
    compiler,
    is_deferred,
    row_of,
    special,
)

from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.matcher import Matcher
from specguide.guided.tools import Tool
from specguide.guided.tools.call_starts import parts_of
from specguide.guided.wrappers.endings import EndingGrammar

PLACE = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
FEW = [Tool("weather", PLACE), Tool("weather.a", PLAIN)]
WAYS = [{"must_call": True}, {"must_call": True, "is_parallel": False}, {}, {"answer": ANSWER}]


def ends(matcher: Matcher, most: int, rng: random.Random) -> bool:
    """Whether a random message is whole after so many tokens, its end token not counted."""
    for _ in range(most):
        token = rng.choice(row_of(matcher))
        assert matcher.accept(token)
        if matcher.is_terminated:
            return True
    return bool(set(VOCABULARY.eos_token_ids) & set(row_of(matcher)))


def check_ends(guide: Guide, rng: random.Random) -> EndingGrammar:
    grammar = compiler().compile(guide)
    assert isinstance(grammar, EndingGrammar)
    least = grammar.num_needed
    if least > 2:
        with pytest.raises(InvalidParams, match=f"takes {least - 1} tokens"):
            grammar.within(least - 2)
    for extra in (0, 1, 4, 12, 40):
        matcher = grammar.within(least + extra).matcher()
        assert ends(matcher, least + extra, rng), extra
    return grammar


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("name", FORMATS)
def test_random_messages_end_in_time(name, way):
    check_ends(asked(name, FEW, **WAYS[way]), random.Random(f"{name} {way}"))


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.arguments])
def test_calls_with_values_that_may_be_texts_end_in_time(name):
    note = {"anyOf": [{"type": "string", "minLength": 5}, {"type": "null"}]}
    values = {"note": note, "any": {}, "kind": {"enum": ["a", None, 1]}}
    parameters = {"type": "object", "properties": values, "required": [*values]}
    check_ends(asked(name, [Tool("f", parameters)], must_call=True), random.Random(name))


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("name", FORMATS)
def test_those_of_many_tools_do_too(name, way):
    guide = asked(name, **WAYS[way])
    grammar = check_ends(guide, random.Random(f"{name} {way}"))
    assert is_deferred(grammar) or guide.as_tag


@pytest.mark.parametrize("name", FORMATS)
def test_text_beside_calls_may_be_any_near_max_tokens(name):
    grammar = compiler().compile(asked(name, FEW))
    assert isinstance(grammar, EndingGrammar)
    if FORMATS[name].before_answer:
        assert grammar.num_needed > 1
        pytest.skip("marks stand before the text")
    letters = set(b"abcdefghijklmnopqrstuvwxyz") & set(row_of(grammar.inner.matcher()))
    assert letters and letters <= set(row_of(grammar.within(2).matcher()))


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.before_answer])
def test_text_behind_marks_may_be_any_near_max_tokens(name):
    grammar = compiler().compile(asked(name, FEW))
    assert isinstance(grammar, EndingGrammar)
    within = grammar.within(grammar.num_needed + 1).matcher()
    inner = grammar.inner.matcher()
    for part in parts_of(FORMATS[name].before_answer, MARKS):
        mark = special(part)
        for token in part.encode() if mark is None else [mark]:
            assert within.accept(token) and inner.accept(token)
    letters = set(b"abcdefghijklmnopqrstuvwxyz") & set(row_of(inner))
    assert letters and letters <= set(row_of(within))


@pytest.mark.parametrize("name", FORMATS)
def test_the_last_token_of_text_beside_calls_may_be_any(name):
    """An end token in its place would tell that nothing was cut off."""
    grammar = compiler().compile(asked(name, FEW))
    assert isinstance(grammar, EndingGrammar)
    if grammar.num_needed > 1:
        pytest.skip("marks stand before the text")
    letters = set(b"abcdefghijklmnopqrstuvwxyz") & set(row_of(grammar.inner.matcher()))
    row = set(row_of(grammar.within(1).matcher()))
    assert letters and letters <= row and row & set(VOCABULARY.eos_token_ids)
