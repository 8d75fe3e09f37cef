"""A walk that meets a limit of llguidance goes on with more room, and its request notices nothing
but time."""

from __future__ import annotations

import numpy as np
import pytest
from byte_vocabulary import EOS, VOCABULARY, backend

from specguide import LLM, Guide, SamplingParams, native
from specguide.config import GuideConfig
from specguide.guided.backends import Backend, create_backend
from specguide.guided.backends.llguidance.adapter import (
    MORE_LIMITS,
    USUAL_LIMITS,
    LLGuidanceBackend,
)
from specguide.guided.matcher import Matcher

NAMES = [name for name in dir(USUAL_LIMITS) if not name.startswith("_")]
SCHEMA = {
    "type": "object",
    "required": ["name", "n"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-f]{2,9}x$"},
        "n": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
    },
}
TEXT = b'{"name": "abcx", "n": [1, 22, "x"], "other": {"a": [true, null]}}'
SMALL = [
    ("max_items_in_row", 3),
    ("step_max_items", 20),
    ("step_lexer_fuel", 300),
    ("max_lexer_states", 40),
]

ADAPTERS = pytest.mark.parametrize("is_native", [True, False])
LIMITS = pytest.mark.parametrize("small", SMALL, ids=[name for name, _ in SMALL])


def limits(**changed: int) -> native.LLGuidanceLimits:
    return native.LLGuidanceLimits(
        **{name: getattr(USUAL_LIMITS, name) for name in NAMES} | changed
    )


def bound(
    is_native: bool, usual: native.LLGuidanceLimits, more: native.LLGuidanceLimits
) -> Backend:
    made = create_backend("llguidance", VOCABULARY, native=is_native)
    assert isinstance(made, LLGuidanceBackend)
    made.usual_limits, made.more_limits = usual, more
    return made


def row_of(matcher: Matcher) -> list[int]:
    row = np.zeros(VOCABULARY.num_words, np.int32)
    matcher.fill(row)
    return row.tolist()


@ADAPTERS
@LIMITS
def test_a_walk_that_meets_a_limit_goes_on_as_if_there_was_none(
    is_native: bool, small: tuple[str, int]
) -> None:
    guide = Guide(json_schema=SCHEMA)
    grammar = bound(is_native, limits(**dict([small])), MORE_LIMITS).compile(guide, GuideConfig())
    free = backend("llguidance", True).compile(guide, GuideConfig())
    for _ in range(2):  # the second request finds what the first one left
        matcher, twin = grammar.matcher(), free.matcher()
        for byte in TEXT:
            assert row_of(matcher) == row_of(twin)
            for _ in range(2):
                assert matcher.accept(byte) and twin.accept(byte)
                matcher.rollback(1)
                twin.rollback(1)
            assert not matcher.accept(1)
            assert matcher.accept(byte) and twin.accept(byte)
        assert matcher.accept(EOS)


@ADAPTERS
def test_a_walk_without_rows_goes_on_as_well(is_native: bool) -> None:
    """What one row leaves of the lexer's fuel is for all tokens up to the next row."""
    words = Guide(grammar="start: WORDS\nWORDS: /(\\S+\\s+){0,49}\\S+/ & /(?s:.{1,500})/")
    usual = limits(step_lexer_fuel=256_000)  # a little more than the first row takes
    matcher = bound(is_native, usual, MORE_LIMITS).compile(words, GuideConfig()).matcher()
    row_of(matcher)
    assert all(matcher.accept(byte) for byte in b"some words here " * 12)
    assert not matcher.accept(EOS) and matcher.accept(ord("a")) and matcher.accept(EOS)


@ADAPTERS
@LIMITS
def test_where_more_room_is_not_enough_the_limit_is_named(
    is_native: bool, small: tuple[str, int]
) -> None:
    few = limits(**dict([small]))
    matcher = bound(is_native, few, few).compile(Guide(json_schema=SCHEMA), GuideConfig()).matcher()
    with pytest.raises(RuntimeError, match=r"[Tt]oo many|max is") as caught:
        for byte in TEXT:
            row_of(matcher)
            assert matcher.accept(byte)
    assert "verbose" not in str(caught.value)


def test_a_request_that_meets_a_limit_is_held_and_ends_as_it_would_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = limits(step_max_items=20, max_items_in_row=5)
    llm = LLM(device="cpu")
    expected = generated(llm, "as it is")
    monkeypatch.setattr(LLGuidanceBackend, "usual_limits", few)
    assert generated(llm, "few") == expected
    monkeypatch.setattr(LLGuidanceBackend, "more_limits", few)
    assert [reason for _, reason in generated(llm, "never more")] == ["error"] * 2
    llm.close()


def generated(llm: LLM, title: str) -> list[tuple[str, str | None]]:
    """Text and finish reason of two requests, by a grammar that is compiled anew for each title."""
    guide = Guide(json_schema={**SCHEMA, "title": title}, backend="llguidance")
    params = [
        SamplingParams(max_tokens=30, guide=guide, temperature=1.0, seed=seed) for seed in range(2)
    ]
    return [(out.text, out.finish_reason) for out in llm.generate(["Some JSON:"] * 2, params)]
