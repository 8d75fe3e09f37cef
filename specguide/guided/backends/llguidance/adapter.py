"""Owns the binding to llguidance: it compiles guides, and its matchers run natively, or through
`python_adapter`.

A grammar is compiled once, into a matcher at its start, and each request gets a clone of it.
Compiling releases the GIL.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

import llguidance
import llguidance._lib as llguidance_lib

from specguide import native
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.adapters.self_test import SELF_TEST_VOCABULARY, check_native_walk
from specguide.guided.backend import Outline, Rewritten, Written, as_given, read_as
from specguide.guided.backends.llguidance.lark import guide_to_lark
from specguide.guided.backends.llguidance.outline import outline_of
from specguide.guided.backends.llguidance.python_adapter import (
    LLGuidanceMatcher,
    Pattern,
    python_tokenizer,
)
from specguide.guided.backends.llguidance.refusal import refusal
from specguide.guided.matcher import Matcher
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.tokenizer.vocabulary import Vocabulary

NAME = "llguidance"

USUAL_LIMITS = native.LLGuidanceLimits(
    max_items_in_row=100_000,
    step_max_items=500_000,
    initial_lexer_fuel=5_000_000,
    step_lexer_fuel=1_000_000,
    max_lexer_states=250_000,
)
"""The usual limits of a walk. They are the library's own, except for items, which take little
memory, and fuel, which costs time."""
MORE_LIMITS = native.LLGuidanceLimits(
    max_items_in_row=1_000_000,
    step_max_items=20_000_000,
    initial_lexer_fuel=20_000_000,
    step_lexer_fuel=20_000_000,
    max_lexer_states=1_000_000,
)
"""The limits of a matcher that has exceeded one of USUAL_LIMITS. A row may then take seconds, and
the matcher about a gigabyte at most."""


_COMPILED_BYTES, _COMPILED_BYTES_A_CHARACTER = 70_000, 50
_LEARNED_BYTES, _LEARNED_BYTES_A_CHARACTER = 200_000, 110
"""Memory of a compiled grammar, and of a matcher after some walks. The library does not report it;
these are fits over some hundred real schemas with the vocabulary of Llama 3."""


@dataclass(frozen=True)
class LLGuidanceCompiled:
    """A grammar that llguidance compiled; see `specguide.guided.backend.CompiledGrammar`."""

    vocabulary: Vocabulary
    pattern: native.NativeGrammar | Pattern
    num_bytes: int
    learned_bytes: int
    """Bytes of a matcher that has walked."""
    backend: str = NAME

    @property
    def used_bytes(self) -> int:
        """Bytes of the matchers that are kept for later requests, each with the lexer states that
        it has learned."""
        if isinstance(self.pattern, native.NativeGrammar):
            return self.pattern.num_learned * self.learned_bytes
        return 0

    def matcher(self) -> Matcher:
        if isinstance(self.pattern, native.NativeGrammar):
            return self.pattern.matcher()
        return LLGuidanceMatcher(self.vocabulary, self.pattern)


class LLGuidanceBackend:
    """llguidance bound to a vocabulary; see `specguide.guided.backend.Backend`.

    usual_limits: limits of its matchers' walks
    more_limits:  limits of matchers that have exceeded a usual one
    """

    usual_limits = USUAL_LIMITS
    more_limits = MORE_LIMITS

    def __init__(self, vocabulary: Vocabulary, library: native.LLGuidanceLibrary | None) -> None:
        self.native = library is not None
        self._vocabulary = vocabulary
        self._library = library
        self._lock = threading.Lock()
        self._tokenizer: native.LLGuidanceTokenizer | llguidance.LLTokenizer | None = None

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        return Written(read_as(rewritten), "lark", guide_to_lark(rewritten, limits))

    def outline(self, written: Written, rewritten: Rewritten) -> Outline | None:
        core = rewritten.value if isinstance(rewritten.value, CoreSchema) else None
        return outline_of(written.text, core)

    def compile(self, guide: Guide | Written, limits: GuideConfig) -> LLGuidanceCompiled:
        written = self.write(as_given(guide), limits) if isinstance(guide, Guide) else guide
        tokenizer = self._bind()
        try:
            pattern = _compile(tokenizer, written.text, self.usual_limits, self.more_limits)
        except ValueError as error:
            raise refusal(str(error), written.kind, written.text) from error
        size = len(written.text)
        return LLGuidanceCompiled(
            self._vocabulary,
            pattern,
            num_bytes=_COMPILED_BYTES + _COMPILED_BYTES_A_CHARACTER * size,
            learned_bytes=_LEARNED_BYTES + _LEARNED_BYTES_A_CHARACTER * size,
        )

    def _bind(self) -> native.LLGuidanceTokenizer | llguidance.LLTokenizer:
        with self._lock:
            if self._tokenizer is None:
                if self._library is not None:
                    self._tokenizer = _native_tokenizer(self._library, self._vocabulary)
                else:
                    self._tokenizer = python_tokenizer(self._vocabulary)
            return self._tokenizer


bind = LLGuidanceBackend


def _compile(
    tokenizer: native.LLGuidanceTokenizer | llguidance.LLTokenizer,
    lark: str,
    usual: native.LLGuidanceLimits,
    more: native.LLGuidanceLimits,
) -> native.NativeGrammar | Pattern:
    if isinstance(tokenizer, native.LLGuidanceTokenizer):
        return tokenizer.compile(lark, usual, more)
    return Pattern(tokenizer, lark, usual, more)


def _native_tokenizer(
    library: native.LLGuidanceLibrary, vocabulary: Vocabulary
) -> native.LLGuidanceTokenizer:
    return native.LLGuidanceTokenizer(library, vocabulary.native)


@functools.cache
def native_library() -> tuple[native.LLGuidanceLibrary | None, str | None]:
    """llguidance's native interface and None; or None and the reason why it does not work."""
    try:
        library = native.LLGuidanceLibrary(llguidance_lib.__file__)
        tokenizer = _native_tokenizer(library, SELF_TEST_VOCABULARY)
        check_native_walk(tokenizer.compile("start: /ab?/\n", USUAL_LIMITS, MORE_LIMITS))
    except Exception as error:  # if a changed library fails, the Python adapter is used
        return None, str(error) or type(error).__name__
    return library, None
