"""Owns grammars with a guard that allows the keys of objects in any order."""

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
class KeyedGrammar(GrammarWrapper):
    """A grammar whose matchers allow each key of an object once, and require all its required
    keys."""

    tokens: native.KeyTokens
    places: native.KeyPlaces
    starts: native.KeyStarts
    vocab_size: int
    num_bytes: int

    def matcher(self) -> native.KeyMatcher:
        """A new matcher at the start of the text."""
        inner = native_matcher(self.inner.matcher(), self.vocab_size)
        return native.KeyMatcher(inner, self.tokens, self.places, self.starts)


class KeyGuard:
    """Guards grammars over one vocabulary. Its table of tokens is made once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def load(self) -> None:
        """Make the table now, which takes a while, and not at a request's first schema."""
        _ = self._tokens

    def guard(self, grammar: CompiledGrammar, known: Mapping[str, Any]) -> KeyedGrammar:
        """The grammar with a guard. known: the fields of KnownKeys"""
        return KeyedGrammar(
            grammar,
            self._tokens,
            native.KeyPlaces([_place(one) for one in known["places"]]),
            native.KeyStarts([(bytes(text), place) for text, place in known["starts"]]),
            len(self._vocabulary),
            grammar.num_bytes,
        )

    @cached_property
    def _tokens(self) -> native.KeyTokens:
        return native.KeyTokens(self._vocabulary.native)


def _place(known: Mapping[str, Any]) -> native.KeyPlace:
    options = [
        native.KeyOption(**{**option, "unnamed": getattr(native.UnnamedKeys, option["unnamed"])})
        for option in known["options"]
    ]
    return native.KeyPlace(**{**known, "options": options})
