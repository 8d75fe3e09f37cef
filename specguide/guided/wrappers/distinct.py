"""Owns grammars with a guard that keeps the items of arrays distinct, which no grammar can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from specguide import native
from specguide.guided.adapters.to_native import native_matcher
from specguide.guided.backend import CompiledGrammar, GrammarWrapper
from specguide.tokenizer.vocabulary import Vocabulary


@dataclass(frozen=True)
class DistinctGrammar(GrammarWrapper):
    """A grammar of texts that contain JSON. Its matchers allow no item twice where items must be
    distinct.

    in_any_order: the grammar allows an object's keys in any order
    """

    tokens: native.DistinctTokens
    places: native.DistinctPlaces
    starts: native.KeyStarts
    in_any_order: bool
    vocab_size: int
    num_bytes: int

    def matcher(self) -> native.DistinctMatcher:
        """A new matcher at the start of the text."""
        inner = native_matcher(self.inner.matcher(), self.vocab_size)
        return native.DistinctMatcher(
            inner, self.tokens, self.places, self.starts, self.in_any_order
        )


class DistinctItems:
    """Guards grammars over one vocabulary. Its table of tokens is made once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def load(self) -> None:
        """Make the table now, which takes a while, and not at a request's first array."""
        _ = self._tokens

    def guard(
        self, grammar: CompiledGrammar, known: Mapping[str, Any], *, in_any_order: bool
    ) -> DistinctGrammar:
        """The grammar with a guard. known: the fields of KnownItems, with at least one place"""
        return DistinctGrammar(
            grammar,
            self._tokens,
            native.DistinctPlaces(list(map(_native_place, known["places"]))),
            native.KeyStarts([(bytes(text), place) for text, place in known["starts"]]),
            in_any_order,
            len(self._vocabulary),
            grammar.num_bytes,
        )

    @cached_property
    def _tokens(self) -> native.DistinctTokens:
        return native.DistinctTokens(self._vocabulary.native)


def _native_place(place: Mapping[str, Any]) -> native.DistinctPlace:
    fields = {name: value for name, value in place.items() if name != "spare"}
    return native.DistinctPlace(**{**fields, "room": getattr(native.DistinctRoom, place["room"])})
