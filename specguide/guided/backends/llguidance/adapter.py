"""Owns the llguidance backend: guides compiled by llguidance, matchers driven natively or through
its Python interface.

A grammar is compiled once into a matcher at its start; each request gets a clone. Compiling holds
no GIL.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import llguidance
import llguidance._lib as llguidance_lib

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backend import Rewritten, Written, as_given, read_as
from specguide.guided.backends.llguidance.lark import guide_to_lark
from specguide.guided.matcher import Matcher, Row
from specguide.guided.python_matcher import LibraryMatcher
from specguide.guided.self_test import SELF_TEST_VOCABULARY, check_native_walk
from specguide.tokenizer.vocabulary import Vocabulary

NAME = "llguidance"
_Answer = TypeVar("_Answer")

USUAL_LIMITS = native.LLGuidanceLimits(
    max_items_in_row=100_000,
    step_max_items=500_000,
    initial_lexer_fuel=5_000_000,
    step_lexer_fuel=1_000_000,
    max_lexer_states=250_000,
)
"""Of a walk; those of the library by default, but for items, which take little memory, and fuel,
which takes time."""
MORE_LIMITS = native.LLGuidanceLimits(
    max_items_in_row=1_000_000,
    step_max_items=20_000_000,
    initial_lexer_fuel=20_000_000,
    step_lexer_fuel=20_000_000,
    max_lexer_states=1_000_000,
)
"""Of a matcher that met one of them: seconds a row, and at most about a gigabyte."""

# The library's words for a state that allows no token: not a failure but an empty row.
_DEAD_END = "NoExtensionBias"
# What stands in place of details behind its words.
_NO_DETAILS = "\n<non-verbose/>"
_RAISED = " (its limits were raised, and that was not enough: make the grammar simpler)"


class _Pattern:
    """A compiled grammar of the Python adapter: where its matchers begin, with the usual limits or
    with more."""

    def __init__(
        self,
        tokenizer: llguidance.LLTokenizer,
        lark: str,
        usual: native.LLGuidanceLimits,
        more: native.LLGuidanceLimits,
    ) -> None:
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

    def __init__(self, vocabulary: Vocabulary, pattern: _Pattern) -> None:
        super().__init__(vocabulary)
        self._pattern = pattern
        self._matcher = pattern.take(roomy=False)
        self._is_roomy = False
        self._taken: list[int] = []

    def _take(self, token: int) -> bool:
        # The library ends up in an error for good when it is given a token that it refuses, so it
        # is asked first.
        if not self._with_room(lambda: self._matcher.validate_tokens([token])):
            return False
        self._with_room(lambda: self._matcher.consume_token(token))
        self._taken.append(token)
        return True

    def _write_row(self, row: Row) -> None:
        def compute() -> None:
            self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
            if self._matcher.get_error().startswith(_DEAD_END):
                self._revive()
                row[:] = 0

        self._with_room(compute)

    def _undo(self, n: int) -> None:
        if not self._matcher.rollback(n):
            raise RuntimeError(self._revive())
        del self._taken[-n:]
        # The library (1.9.1) may give its last mask again after a rollback: it knows that by its
        # place in the text, not by the path. A mask computed here is right and takes its place.
        self._with_room(self._matcher.compute_bitmask)

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
        return self._matcher.get_error().partition(_NO_DETAILS)[0]


@dataclass(frozen=True)
class LLGuidanceCompiled:
    """A grammar that llguidance compiled; see `specguide.guided.backend.CompiledGrammar`."""

    vocabulary: Vocabulary
    pattern: native.NativeGrammar | _Pattern
    num_bytes: int
    backend: str = NAME

    def matcher(self) -> Matcher:
        if isinstance(self.pattern, native.NativeGrammar):
            return self.pattern.matcher()
        return LLGuidanceMatcher(self.vocabulary, self.pattern)


class LLGuidanceBackend:
    """llguidance bound to a vocabulary; see `specguide.guided.backend.Backend`.

    usual_limits, more_limits: of its matchers' walks, and of those that met one of the former
    """

    name = NAME
    usual_limits = USUAL_LIMITS
    more_limits = MORE_LIMITS

    def __init__(
        self, vocabulary: Vocabulary, library: native.LLGuidanceLibrary | None, reason: str | None
    ) -> None:
        self.native = library is not None
        self.reason = reason
        self._vocabulary = vocabulary
        self._library = library
        self._lock = threading.Lock()
        self._tokenizer: native.LLGuidanceTokenizer | llguidance.LLTokenizer | None = None

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        return Written(read_as(rewritten), "lark", guide_to_lark(rewritten, limits))

    def compile(self, guide: Guide | Written, limits: GuideConfig) -> LLGuidanceCompiled:
        written = self.write(as_given(guide), limits) if isinstance(guide, Guide) else guide
        tokenizer = self._bind()
        try:
            pattern = _compile(tokenizer, written.text, self.usual_limits, self.more_limits)
        except ValueError as error:
            raise _refusal(str(error), written.kind) from error
        return LLGuidanceCompiled(self._vocabulary, pattern, _estimate_bytes(written.text))

    def _bind(self) -> native.LLGuidanceTokenizer | llguidance.LLTokenizer:
        with self._lock:
            if self._tokenizer is None:
                if self._library is not None:
                    self._tokenizer = _native_tokenizer(self._library, self._vocabulary)
                else:
                    self._tokenizer = _python_tokenizer(self._vocabulary)
            return self._tokenizer


bind = LLGuidanceBackend


def _compile(
    tokenizer: native.LLGuidanceTokenizer | llguidance.LLTokenizer,
    lark: str,
    usual: native.LLGuidanceLimits,
    more: native.LLGuidanceLimits,
) -> native.NativeGrammar | _Pattern:
    if isinstance(tokenizer, native.LLGuidanceTokenizer):
        return tokenizer.compile(lark, usual, more)
    return _Pattern(tokenizer, lark, usual, more)


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
        raise ValueError(matcher.get_error())
    return matcher


def _native_tokenizer(
    library: native.LLGuidanceLibrary, vocabulary: Vocabulary
) -> native.LLGuidanceTokenizer:
    words = native.NativeVocabulary(vocabulary.token_bytes, vocabulary.eos_token_ids)
    return native.LLGuidanceTokenizer(library, words)


def _python_tokenizer(vocabulary: Vocabulary) -> llguidance.LLTokenizer:
    tokens = list(vocabulary.token_bytes)
    for token in vocabulary.eos_token_ids:
        tokens[token] = b""
    ids = {
        token_bytes: token
        for token, token_bytes in reversed(list(enumerate(tokens)))
        if token_bytes
    }
    longest = max(map(len, ids), default=0)

    class Greedy:
        """What llguidance asks of a tokenizer; it spells text with the longest tokens from the
        left."""

        eos_token_id = vocabulary.eos_token_ids[0]
        bos_token_id = None
        special_token_ids: tuple[int, ...] = ()

        def __init__(self) -> None:
            self.tokens = tokens

        def __call__(self, text: Any) -> list[int]:
            text = text.encode() if isinstance(text, str) else bytes(text)
            found, start = [], 0
            while start < len(text):
                end = next(
                    (
                        end
                        for end in range(min(start + longest, len(text)), start, -1)
                        if text[start:end] in ids
                    ),
                    None,
                )
                if end is None:
                    break
                found.append(ids[text[start:end]])
                start = end
            return found

    return llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(Greedy()),
        n_vocab=len(tokens),
        eos_token=list(vocabulary.eos_token_ids),
    )


def _estimate_bytes(lark: str) -> int:
    """Memory of a compiled grammar: the library does not say, so from a fit over some hundred real
    schemas."""
    return 120_000 + 9 * len(lark)


_UNIMPLEMENTED = 'Unimplemented keys: ["'
_KEYWORD_OF = {
    "oneOf constraints are not supported": "oneOf",
    "Unknown format": "format",
    "patternProperty regexes": "patternProperties",
    "min/maxProperties only supported": "minProperties",
    "Resource '": "$ref",
    "circular references": "$ref",
}
_MALFORMED = (
    "invalid type",
    "unsatisfiable",
    "does not exist",
    "expected",
    "regex parse error",
    "invalid regex",
    "unknown name",
    "lexer error",
    "parser error",
    "redefined",
    "duplicate",
)
_NOT_SUPPORTED = ("not supported", "unsupported", "not implemented")
_TOO_LARGE = (
    "its terminals take too many steps to compile; make them fewer, or counts and character "
    "classes smaller"
)


def _refusal(words: str, kind: str) -> InvalidGuide:
    param = kind.partition(",")[0]
    if param != "grammar":
        words = _without_place(words)
    words = _TOO_LARGE if "initial_lexer_fuel" in words else words.strip()
    _, is_unimplemented, key = words.partition(_UNIMPLEMENTED)
    keyword = (
        key.partition('"')[0]
        if is_unimplemented
        else next((keyword for sign, keyword in _KEYWORD_OF.items() if sign in words), None)
    )
    if keyword is None and _is_malformed(words.lower()):
        return InvalidGuide(f"{kind} is malformed: {words}", param=param)
    return UnsupportedGuide(f"llguidance cannot compile {kind}: {words}", keyword=keyword)


def _without_place(words: str) -> str:
    """An error's words without lines and columns: those are of the Lark text, which the caller did
    not write."""
    place, found, rest = words.partition("): ")
    if found and place.startswith("at "):
        words = rest.removeprefix("failed to compile JSON schema: ")
    return words.partition("\n   1 | ")[0]


def _is_malformed(words: str) -> bool:
    is_fraction = (
        words.endswith(".0") and words.removesuffix(".0").rpartition("got ")[2].isdecimal()
    )
    return (
        any(sign in words for sign in _MALFORMED)
        and not is_fraction
        and not any(sign in words for sign in _NOT_SUPPORTED)
    )


@functools.cache
def native_library() -> tuple[native.LLGuidanceLibrary | None, str | None]:
    """llguidance's native interface, or None and why it does not resolve."""
    try:
        library = native.LLGuidanceLibrary(llguidance_lib.__file__)
        tokenizer = _native_tokenizer(library, SELF_TEST_VOCABULARY)
        check_native_walk(tokenizer.compile("start: /ab?/\n", USUAL_LIMITS, MORE_LIMITS))
    except Exception as error:  # whatever a changed library answers, the Python adapter takes over
        return None, str(error) or type(error).__name__
    return library, None
