"""Owns llguidance's matchers over its Python interface, for use where the native interface does not
work."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import llguidance
import numpy as np

from specguide import native
from specguide.guided.adapters.python_matcher import LibraryMatcher
from specguide.guided.matcher import Row
from specguide.tokenizer.vocabulary import Vocabulary

_Answer = TypeVar("_Answer")

# The library's message for a state that allows no token: an empty row, not a failure.
_DEAD_END = "NoExtensionBias"
# Stands behind a message in place of details.
_NO_DETAILS = "\n<non-verbose/>"
# Begins the trace of a panic, which clients should not read.
_TRACE = "\n<backtrace>"
_RAISED = " (its limits were raised, and that was not enough: make the grammar simpler)"


class Pattern:
    """A compiled grammar of the Python adapter: its matchers at the start, with the usual limits
    and with larger ones.

    names_tokens: it may name tokens by their ids, as <[2]>, and so any token
    """

    def __init__(
        self,
        tokenizer: llguidance.LLTokenizer,
        lark: str,
        usual: native.LLGuidanceLimits,
        more: native.LLGuidanceLimits,
    ) -> None:
        self.names_tokens = "<[" in lark
        self._make_roomy = functools.partial(_library_matcher, tokenizer, lark, more)
        self._usual = _library_matcher(tokenizer, lark, usual)
        self._roomy: llguidance.LLMatcher | None = None
        self._lock = threading.Lock()

    def take(self, *, roomy: bool) -> llguidance.LLMatcher:
        """A new matcher at the grammar's start. roomy: with the larger limits"""
        if not roomy:
            return self._usual.deep_copy()
        with self._lock:
            self._roomy = self._roomy or self._make_roomy()
            return self._roomy.deep_copy()


class LLGuidanceMatcher(LibraryMatcher):
    """A matcher over llguidance's Python interface."""

    takes_special_tokens = True

    def __init__(self, vocabulary: Vocabulary, pattern: Pattern) -> None:
        super().__init__(vocabulary)
        self._pattern = pattern
        self._matcher = pattern.take(roomy=False)
        self._is_roomy = False
        self._is_masked = False  # whether a mask was computed after the last token
        self._taken: list[int] = []

    def _take(self, token: int) -> bool:
        # The fuel that a mask leaves is used for the tokens behind it. Once it is spent, the
        # library refuses every token without an error; only the next mask reports one.
        if self._take_valid(token):
            return True
        if self._is_masked:
            return False
        self._mask()
        return self._take_valid(token)

    def _take_valid(self, token: int) -> bool:
        # A token that the library refuses leaves it in an error for good, so the library is asked
        # first.
        if not self._with_room(lambda: self._matcher.validate_tokens([token])):
            return False
        self._with_room(lambda: self._matcher.consume_token(token))
        self._taken.append(token)
        self._is_masked = False
        return True

    def _mask(self) -> None:
        self._with_room(self._matcher.compute_bitmask)
        self._is_masked = True

    def _write_row(self, row: Row) -> None:
        def compute() -> None:
            self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
            if self._matcher.get_error().startswith(_DEAD_END):
                self._revive()
                row[:] = 0

        self._with_room(compute)
        self._is_masked = True
        # A grammar may let any token follow, as <[*]> does; but an end token ends the text.
        if self._pattern.names_tokens and not self._may_end():
            for end in self._vocabulary.eos_token_ids:
                row.view(np.uint32)[end // 32] &= ~np.uint32(1 << end % 32)

    def _undo(self, n: int) -> None:
        if not self._matcher.rollback(n):
            raise RuntimeError(self._revive())
        del self._taken[-n:]
        # After a rollback the library (1.9.1) may return its last mask, which it recognizes by the
        # position in the text and not by the path. So compute a right mask here to replace it.
        self._mask()

    def _may_end(self) -> bool:
        return self._matcher.is_accepting()

    def _with_room(self, call: Callable[[], _Answer]) -> _Answer:
        """Call the library. Where that fails, call it once more, on a matcher with larger limits in
        the same state, which is kept from then on: a limit may be the cause."""
        answer = call()
        if self._matcher.is_error() and not self._is_roomy:
            self._is_roomy = True
            self._revive()
            answer = call()
        if self._matcher.is_error():
            raise RuntimeError(self._revive() + _RAISED)
        return answer

    def _revive(self) -> str:
        """Replace a matcher in error by a new one that takes the same tokens. Returns the message
        of the error."""
        words = self._words()
        self._matcher = self._pattern.take(roomy=self._is_roomy)
        if not self._matcher.consume_tokens(self._taken):
            raise RuntimeError(self._words() + _RAISED * self._is_roomy)
        return words

    def _words(self) -> str:
        return _words_of(self._matcher)


def _words_of(matcher: llguidance.LLMatcher) -> str:
    """The message of a matcher's error."""
    return matcher.get_error().partition(_NO_DETAILS)[0].partition(_TRACE)[0]


def _library_matcher(
    tokenizer: llguidance.LLTokenizer, lark: str, limits: native.LLGuidanceLimits
) -> llguidance.LLMatcher:
    """A matcher at the grammar's start. Raises ValueError with the library's message when it
    refuses the grammar."""
    values = {name: getattr(limits, name) for name in dir(limits) if not name.startswith("_")}
    matcher = llguidance.LLMatcher(
        tokenizer,
        lark,
        log_level=0,
        limits=llguidance.LLParserLimits(verbose_errors=False, **values),
    )
    if matcher.is_error():
        raise ValueError(_words_of(matcher))
    return matcher


def python_tokenizer(vocabulary: Vocabulary) -> llguidance.LLTokenizer:
    """The library's tokenizer for a vocabulary."""
    return llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Greedy(vocabulary)),
        n_vocab=len(vocabulary),
        eos_token=list(vocabulary.eos_token_ids),
    )


class _Greedy:
    """The tokenizer that llguidance needs; it spells text with the longest tokens from the left."""

    bos_token_id = None
    special_token_ids: tuple[int, ...] = ()

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos_token_ids[0]
        self.tokens = list(vocabulary.token_bytes)
        for token in vocabulary.eos_token_ids:
            self.tokens[token] = b""
        named = reversed(list(enumerate(self.tokens)))
        self._ids = {token_bytes: token for token, token_bytes in named if token_bytes}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: Any) -> list[int]:
        text = text.encode() if isinstance(text, str) else bytes(text)
        found = []
        start = 0
        while start < len(text):
            ends = range(min(start + self._longest, len(text)), start, -1)
            end = next((end for end in ends if text[start:end] in self._ids), None)
            if end is None:
                break
            found.append(self._ids[text[start:end]])
            start = end
        return found
