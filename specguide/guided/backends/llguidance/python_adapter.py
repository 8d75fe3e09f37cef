"""Owns llguidance's matchers driven through its Python interface, where the native one does not
resolve."""

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

# The library's words for a state that allows no token: not a failure but an empty row.
_DEAD_END = "NoExtensionBias"
# What stands in place of details behind its words.
_NO_DETAILS = "\n<non-verbose/>"
# What begins the trace of a panic: nothing that a client should read.
_TRACE = "\n<backtrace>"
_RAISED = " (its limits were raised, and that was not enough: make the grammar simpler)"


class Pattern:
    """A compiled grammar of the Python adapter: where its matchers begin, with the usual limits or
    with more.

    names_tokens: it may speak of tokens by their ids, as <[2]>, and so of any token
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
        """A matcher at the grammar's start."""
        if not roomy:
            return self._usual.deep_copy()
        with self._lock:
            self._roomy = self._roomy or self._make_roomy()
            return self._roomy.deep_copy()


class LLGuidanceMatcher(LibraryMatcher):
    """The Python adapter."""

    takes_special_tokens = True

    def __init__(self, vocabulary: Vocabulary, pattern: Pattern) -> None:
        super().__init__(vocabulary)
        self._pattern = pattern
        self._matcher = pattern.take(roomy=False)
        self._is_roomy = False
        self._is_masked = False  # a mask was computed behind the tokens taken so far
        self._taken: list[int] = []

    def _take(self, token: int) -> bool:
        # What a mask leaves of its fuel is for the tokens behind it. Once that is spent the library
        # refuses every token, without an error; it has the next mask tell one.
        if self._take_valid(token):
            return True
        if self._is_masked:
            return False
        self._mask()
        return self._take_valid(token)

    def _take_valid(self, token: int) -> bool:
        # The library ends up in an error for good when it is given a token that it refuses, so it
        # is asked first.
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
        # A grammar may let any token follow, as <[*]>; but an end token ends the text.
        if self._pattern.names_tokens and not self._may_end():
            for end in self._vocabulary.eos_token_ids:
                row.view(np.uint32)[end // 32] &= ~np.uint32(1 << end % 32)

    def _undo(self, n: int) -> None:
        if not self._matcher.rollback(n):
            raise RuntimeError(self._revive())
        del self._taken[-n:]
        # The library (1.9.1) may give its last mask again after a rollback: it knows that by its
        # place in the text, not by the path. A mask computed here is right and takes its place.
        self._mask()

    def _may_end(self) -> bool:
        return self._matcher.is_accepting()

    def _with_room(self, call: Callable[[], _Answer]) -> _Answer:
        """Calls the library; where that fails once more, from the same place, by a matcher with
        more room, which serves from then on: the cause may be a limit."""
        answer = call()
        if self._matcher.is_error() and not self._is_roomy:
            self._is_roomy = True
            self._revive()
            answer = call()
        if self._matcher.is_error():
            raise RuntimeError(self._revive() + _RAISED)
        return answer

    def _revive(self) -> str:
        """Puts a copy that took the same tokens in place of a matcher in error; returns the words
        of the error."""
        words = self._words()
        self._matcher = self._pattern.take(roomy=self._is_roomy)
        if not self._matcher.consume_tokens(self._taken):
            raise RuntimeError(self._words() + _RAISED * self._is_roomy)
        return words

    def _words(self) -> str:
        return _words_of(self._matcher)


def _words_of(matcher: llguidance.LLMatcher) -> str:
    """The words of a matcher's error."""
    return matcher.get_error().partition(_NO_DETAILS)[0].partition(_TRACE)[0]


def _library_matcher(
    tokenizer: llguidance.LLTokenizer, lark: str, limits: native.LLGuidanceLimits
) -> llguidance.LLMatcher:
    """A matcher at the grammar's start. Raises ValueError with the library's words when it refuses
    the grammar."""
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
    """The library's tokenizer of a vocabulary."""
    return llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Greedy(vocabulary)),
        n_vocab=len(vocabulary),
        eos_token=list(vocabulary.eos_token_ids),
    )


class _Greedy:
    """What llguidance asks of a tokenizer; it spells text with the longest tokens from the left."""

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
