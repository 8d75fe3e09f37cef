"""Arrays whose items must differ, nested as deep as can be, in texts of any kind."""

from __future__ import annotations

import time

import numpy as np
import pytest

from specguide import native
from specguide.guided.wrappers.distinct import DistinctItems
from specguide.tokenizer.vocabulary import Vocabulary


class AnyMatcher:
    """Takes every token but the end."""

    is_terminated = False

    def accept(self, token: int) -> bool:
        return True

    def fill(self, row: np.ndarray) -> None:
        row[:] = -1

    def rollback(self, n: int) -> None:
        pass

    def forced_tokens(self) -> list[int]:
        return []


class AnyText:
    """The grammar of all texts."""

    backend, num_bytes, used_bytes = "any", 0, 0

    def matcher(self) -> AnyMatcher:
        return AnyMatcher()


def all_arrays(*tokens: bytes, is_distinct: bool):
    """A matcher of any text, in which all arrays are alike."""
    place = {"is_distinct": is_distinct, "room": "FREE", "prefix": [], "rest": 0, "properties": {}}
    known = {"places": [{**place, "other": -1, "spare": 0}], "starts": []}
    filled = (*tokens, *[b"x"] * (31 - len(tokens)), b"")  # a word of them
    items = DistinctItems(Vocabulary(filled, (31,)))
    return items.guard(AnyText(), known, in_any_order=False).matcher()


def test_a_million_open_arrays_are_let_go_of_and_cost_nothing():
    matcher = all_arrays(b"[" * 10_000, b"[", is_distinct=False)
    for _ in range(100):
        assert matcher.accept(0)
    begin_s = time.perf_counter()
    for _ in range(200):
        assert matcher.accept(1)
    assert time.perf_counter() - begin_s < 1


def test_items_are_nested_no_deeper_than_they_can_be_compared():
    matcher, row = all_arrays(b"[", b"{[", b"]", is_distinct=True), np.zeros(1, np.int32)
    for nested in range(1001):
        matcher.fill(row)
        assert row[0] & 0b111 == (0b111 if nested < 1000 else 0b101)
        assert matcher.accept(0)
    matcher.fill(row)
    assert row[0] & 0b111 == 0b100
    assert not matcher.accept(0) and matcher.accept(2)


def test_places_that_are_not_there_are_refused():
    place = native.DistinctPlace(
        is_distinct=True,
        room=native.DistinctRoom.FREE,
        prefix=[],
        rest=7,
        properties={},
        other=-1,
    )
    with pytest.raises(ValueError, match="no place 7"):
        native.DistinctPlaces([place])
