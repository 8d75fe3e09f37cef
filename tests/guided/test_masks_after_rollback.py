"""Masks behind rollbacks: what the library remembers of another path does not come back."""

from __future__ import annotations

import numpy as np
import pytest

from specguide.bench.instances import BYTES
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import create_backend
from specguide.guided.matcher import Matcher

OBJECT = {"type": "object", "properties": {"shape": {"type": "string"}}}
SHARED = '{ "\\"":0.0, "5F"  \n :['
OTHER = '94] , "af{.1 _c":0 '
BEHIND = '9 ,9,""], '


def row(matcher: Matcher) -> bytes:
    words = np.zeros(BYTES.num_words, np.int32)
    matcher.fill(words)
    return words.tobytes()


def take(matcher: Matcher, text: str) -> None:
    assert all(matcher.accept(byte) for byte in text.encode()), text


@pytest.mark.parametrize("native", [True, False])
def test_a_mask_from_before_an_end_does_not_come_again(native: bool) -> None:
    """llguidance remembers no mask where nothing but an end may follow, and so the one before."""
    backend = create_backend("llguidance", BYTES, native=native)
    grammar = backend.compile(Guide(json_schema=OBJECT), GuideConfig())
    matcher, fresh = grammar.matcher(), grammar.matcher()
    take(matcher, SHARED + OTHER)
    row(matcher)
    take(matcher, "}")
    row(matcher)
    matcher.rollback(len(OTHER) + 1)
    take(matcher, BEHIND)
    take(fresh, SHARED + BEHIND)
    assert row(matcher) == row(fresh)
