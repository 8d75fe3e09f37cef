"""Owns grammars whose arrays of distinct items a guard watches, since no grammar can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from specguide import native
from specguide.guided.backends import CompiledGrammar
from specguide.tokenizer.vocabulary import Vocabulary


@dataclass(frozen=True)
class DistinctGrammar:
    """A grammar of JSON texts whose matchers allow no item twice where items must differ.

    in_any_order: it allows an object's keys in any order
    """

    inner: CompiledGrammar
    tokens: native.DistinctTokens
    places: native.DistinctPlaces
    in_any_order: bool
    vocab_size: int
    num_bytes: int

    @property
    def backend(self) -> str:
        return self.inner.backend

    def matcher(self) -> native.DistinctMatcher:
        """At the start of the text."""
        inner = self.inner.matcher()
        if not isinstance(inner, native.Matcher):
            inner = native.PythonMatcher(inner, self.vocab_size)
        return native.DistinctMatcher(inner, self.tokens, self.places, self.in_any_order)


class DistinctItems:
    """Guards grammars over one vocabulary; what is known of its tokens is found out once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def guard(
        self, grammar: CompiledGrammar, places: Sequence[dict[str, Any]], *, in_any_order: bool
    ) -> DistinctGrammar:
        """places: as `schema.distinct.distinct_places` finds them, one at least"""
        made = [
            native.DistinctPlace(**{**place, "room": getattr(native.DistinctRoom, place["room"])})
            for place in places
        ]
        return DistinctGrammar(
            grammar,
            self._tokens,
            native.DistinctPlaces(made),
            in_any_order,
            len(self._vocabulary),
            grammar.num_bytes,
        )

    @cached_property
    def _tokens(self) -> native.DistinctTokens:
        words = native.NativeVocabulary(
            self._vocabulary.token_bytes, self._vocabulary.eos_token_ids
        )
        return native.DistinctTokens(words)
