"""Owns the llguidance backend: guides compiled by llguidance, matchers driven natively or through its Python interface.

A grammar is compiled once into a matcher at its start; each request gets a clone. Compiling holds no GIL.
"""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass
from typing import Any

import llguidance
import llguidance._lib as llguidance_lib

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends.grammar_form import grammar_form
from specguide.guided.backends.lark import guide_to_lark
from specguide.guided.backends.python_matcher import LibraryMatcher
from specguide.guided.backends.self_test import SELF_TEST_VOCABULARY, check_native_walk
from specguide.guided.matcher import Matcher, Row
from specguide.tokenizer.vocabulary import Vocabulary

NAME = "llguidance"

# The library's words for a state that allows no token: not a failure but an empty row.
_DEAD_END = "NoExtensionBias"


class LLGuidanceMatcher(LibraryMatcher):
    """The Python adapter."""

    takes_special_tokens = True

    def __init__(self, vocabulary: Vocabulary, pattern: llguidance.LLMatcher) -> None:
        super().__init__(vocabulary)
        self._pattern = pattern
        self._matcher = pattern.deep_copy()
        self._taken: list[int] = []

    def _take(self, token: int) -> bool:
        # The library ends up in an error for good when it is given a token that it refuses, so it is asked first.
        if self._matcher.validate_tokens([token]) != 1:
            if self._matcher.is_error():
                raise RuntimeError(self._revive())
            return False
        if not self._matcher.consume_token(token):
            raise RuntimeError(self._revive())
        self._taken.append(token)
        return True

    def _write_row(self, row: Row) -> None:
        self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        if self._matcher.is_error():
            words = self._revive()
            if not words.startswith(_DEAD_END):
                raise RuntimeError(words)
            row[:] = 0

    def _undo(self, n: int) -> None:
        if not self._matcher.rollback(n):
            raise RuntimeError(self._revive())
        del self._taken[-n:]
        # The library (1.9.1) may give its last mask again after a rollback: it knows that by its place in the text, not
        # by the path. A mask computed here is right and takes its place.
        self._matcher.compute_bitmask()

    def _may_end(self) -> bool:
        return self._matcher.is_accepting()

    def _revive(self) -> str:
        """Puts a copy that took the same tokens in place of a matcher in error; returns the words of the error."""
        words = self._matcher.get_error()
        self._matcher = self._pattern.deep_copy()
        if not self._matcher.consume_tokens(self._taken):
            raise RuntimeError(self._matcher.get_error())
        return words


@dataclass(frozen=True)
class LLGuidanceCompiled:
    """A grammar that llguidance compiled; see `specguide.guided.backends.base.CompiledGrammar`."""

    vocabulary: Vocabulary
    pattern: native.NativeGrammar | llguidance.LLMatcher
    num_bytes: int
    backend: str = NAME

    def matcher(self) -> Matcher:
        if isinstance(self.pattern, native.NativeGrammar):
            return self.pattern.matcher()
        return LLGuidanceMatcher(self.vocabulary, self.pattern)


class LLGuidanceBackend:
    """llguidance bound to a vocabulary; see `specguide.guided.backends.base.Backend`."""

    name = NAME

    def __init__(self, vocabulary: Vocabulary, library: native.LLGuidanceLibrary | None, reason: str | None) -> None:
        self.native = library is not None
        self.reason = reason
        self._vocabulary = vocabulary
        self._library = library
        self._lock = threading.Lock()
        self._tokenizer: native.LLGuidanceTokenizer | llguidance.LLTokenizer | None = None

    def compile(self, guide: Guide, limits: GuideConfig) -> LLGuidanceCompiled:
        lark = guide_to_lark(guide, limits)
        tokenizer = self._bind()
        try:
            pattern = _compile(tokenizer, lark)
        except ValueError as error:
            raise _refusal(str(error), guide) from error
        return LLGuidanceCompiled(self._vocabulary, pattern, _estimate_bytes(lark))

    def _bind(self) -> native.LLGuidanceTokenizer | llguidance.LLTokenizer:
        with self._lock:
            if self._tokenizer is None:
                if self._library is not None:
                    self._tokenizer = _native_tokenizer(self._library, self._vocabulary)
                else:
                    self._tokenizer = _python_tokenizer(self._vocabulary)
            return self._tokenizer

bind = LLGuidanceBackend


def _compile(tokenizer: native.LLGuidanceTokenizer | llguidance.LLTokenizer,
             lark: str) -> native.NativeGrammar | llguidance.LLMatcher:
    if isinstance(tokenizer, native.LLGuidanceTokenizer):
        return tokenizer.compile(lark)
    limits = llguidance.LLParserLimits(verbose_errors=False)
    matcher = llguidance.LLMatcher(tokenizer, lark, log_level=0, limits=limits)
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    return matcher


def _native_tokenizer(library: native.LLGuidanceLibrary, vocabulary: Vocabulary) -> native.LLGuidanceTokenizer:
    words = native.NativeVocabulary(vocabulary.token_bytes, vocabulary.eos_token_ids)
    return native.LLGuidanceTokenizer(library, words)


def _python_tokenizer(vocabulary: Vocabulary) -> llguidance.LLTokenizer:
    tokens = list(vocabulary.token_bytes)
    for token in vocabulary.eos_token_ids:
        tokens[token] = b""
    ids = {token_bytes: token for token, token_bytes in reversed(list(enumerate(tokens))) if token_bytes}
    longest = max(map(len, ids), default=0)

    class Greedy:
        """What llguidance asks of a tokenizer; it spells text with the longest tokens from the left."""

        eos_token_id = vocabulary.eos_token_ids[0]
        bos_token_id = None
        special_token_ids: tuple[int, ...] = ()

        def __init__(self) -> None:
            self.tokens = tokens

        def __call__(self, text: Any) -> list[int]:
            text = text.encode() if isinstance(text, str) else bytes(text)
            found, start = [], 0
            while start < len(text):
                end = next((end for end in range(min(start + longest, len(text)), start, -1) if text[start:end] in ids),
                           None)
                if end is None:
                    break
                found.append(ids[text[start:end]])
                start = end
            return found

    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Greedy()), n_vocab=len(tokens),
                                  eos_token=list(vocabulary.eos_token_ids))


def _estimate_bytes(lark: str) -> int:
    """Memory of a compiled grammar: the library does not say, so from a fit over some hundred real schemas."""
    return 120_000 + 9 * len(lark)


_UNIMPLEMENTED = re.compile(r'Unimplemented keys: \["([^"]+)"')
_KEYWORD_OF = (
    (re.compile("oneOf constraints are not supported"), "oneOf"),
    (re.compile("Unknown format"), "format"),
    (re.compile("patternProperty regexes"), "patternProperties"),
    (re.compile("min/maxProperties only supported"), "minProperties"),
    (re.compile("Resource '|circular references"), "$ref"),
)
_MALFORMED = re.compile("invalid type|unsatisfiable|does not exist|expected|regex parse error|invalid regex"
                        "|unknown name|lexer error|parser error|redefined|duplicate", re.IGNORECASE)
_NOT_SUPPORTED = re.compile("not supported|unsupported|not implemented|got \\d+\\.0$", re.IGNORECASE)
_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")


def _refusal(words: str, guide: Guide) -> InvalidGuide:
    if guide.kind != "grammar":  # lines and columns are those of the Lark text, which the caller did not write
        words = _PLACE.sub("", words).split("\n   1 | ")[0]
    words = words.strip()
    unimplemented = _UNIMPLEMENTED.search(words)
    keyword = unimplemented[1] if unimplemented else next((k for rule, k in _KEYWORD_OF if rule.search(words)), None)
    form = f", read as {grammar_form(guide.source())}," if guide.kind == "grammar" else ""
    if keyword is None and _MALFORMED.search(words) and not _NOT_SUPPORTED.search(words):
        return InvalidGuide(f"{guide.kind}{form} is malformed: {words}", param=guide.kind)
    return UnsupportedGuide(f"llguidance cannot compile {guide.kind}{form}: {words}", keyword=keyword)


@functools.cache
def native_library() -> tuple[native.LLGuidanceLibrary | None, str | None]:
    """llguidance's native interface, or None and why it does not resolve."""
    try:
        library = native.LLGuidanceLibrary(llguidance_lib.__file__)
        check_native_walk(_native_tokenizer(library, SELF_TEST_VOCABULARY).compile("start: /ab?/\n"))
    except Exception as error:  # whatever a changed library answers, the Python adapter takes over
        return None, str(error) or type(error).__name__
    return library, None
