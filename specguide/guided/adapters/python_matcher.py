"""Owns the part that the Python adapters of both grammar libraries share: the twin of the native
`LibraryMatcher`.

It handles end tokens, termination, tokens that no grammar allows and the limits of rollback. So the
libraries see only text tokens, and cannot differ in the rest. The native adapters do the same in
C++; tests compare the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from specguide.guided.matcher import Matcher, Row, allowed_tokens
from specguide.tokenizer.vocabulary import Vocabulary

MAX_FORCED_TOKENS = 32


class LibraryMatcher(ABC):
    """A matcher over a library's Python interface; see `specguide.guided.matcher.Matcher`.

    takes_special_tokens: its grammars may name special tokens, by their ids
    """

    takes_special_tokens = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._num_taken = 0
        self._terminated = False

    @abstractmethod
    def _take(self, token: int) -> bool:
        """Take a token that is no end token, or refuse it and change nothing. Returns whether it
        was taken."""

    @abstractmethod
    def _write_row(self, row: Row) -> None:
        """Write all words of a row, end tokens included where the grammar may end."""

    @abstractmethod
    def _undo(self, n: int) -> None:
        """Take back n > 0 tokens, where at least n were taken."""

    @abstractmethod
    def _may_end(self) -> bool:
        """Whether the grammar may end here."""

    def accept(self, token: int) -> bool:
        if self._terminated or not 0 <= token < len(self._vocabulary):
            return False
        if token in self._vocabulary.eos_token_ids:
            self._terminated = self._may_end()
            return self._terminated
        if not (self._vocabulary.token_bytes[token] or self.takes_special_tokens) or not self._take(
            token
        ):
            return False
        self._num_taken += 1
        return True

    def fill(self, row: Row) -> None:
        if self._terminated:
            raise RuntimeError("a terminated matcher fills nothing")
        if row.shape != (self._vocabulary.num_words,) or row.dtype != np.int32:
            raise ValueError(
                f"a row must be {self._vocabulary.num_words} int32 words, found {row.shape} "
                f"{row.dtype}"
            )
        self._write_row(row)

    def rollback(self, n: int) -> None:
        num_accepted = self._num_taken + self._terminated
        if not 0 <= n <= num_accepted:
            raise ValueError(f"rollback of {n} tokens, {num_accepted} were accepted")
        if n == 0:
            return
        num_text = n - self._terminated
        if num_text:
            self._undo(num_text)
        self._terminated = False
        self._num_taken -= num_text

    @property
    def is_terminated(self) -> bool:
        return self._terminated

    def forced_tokens(self) -> list[int]:
        return [] if self._terminated else find_forced_tokens(self, self._vocabulary)


def find_forced_tokens(
    matcher: Matcher, vocabulary: Vocabulary, limit: int = MAX_FORCED_TOKENS
) -> list[int]:
    """At most `limit` forced tokens from the matcher's state on, found from its rows. The matcher's
    state stays as it is."""
    row = np.zeros(vocabulary.num_words, np.int32)
    tokens: list[int] = []
    try:
        while len(tokens) < limit:
            matcher.fill(row)
            token = forced_token(row, vocabulary)
            if token is None or not matcher.accept(token):
                break
            tokens.append(token)
    finally:
        matcher.rollback(len(tokens))
    return tokens


def forced_token(row: Row, vocabulary: Vocabulary) -> int | None:
    """The longest allowed token that agrees with all others: each other allowed token's text is a
    prefix or a continuation of its text.

    None where the allowed tokens begin differently, where the grammar may end, or where nothing is
    allowed.
    """
    text = b""
    agreed = None
    allowed = allowed_tokens(row)
    for token in allowed:
        token_bytes = b"" if token in vocabulary.eos_token_ids else vocabulary.token_bytes[token]
        common = _common_prefix(text, token_bytes)
        if not token_bytes:
            return None
        if common < min(len(text), len(token_bytes)):
            agreed = common if agreed is None else min(agreed, common)
            if agreed == 0:
                return None
        elif len(token_bytes) > len(text):
            text = token_bytes
    text = text[:agreed]
    fitting = [
        int(token) for token in allowed if 0 < len(vocabulary.token_bytes[token]) <= len(text)
    ]
    return max(fitting, key=lambda token: len(vocabulary.token_bytes[token]), default=None)


def _common_prefix(a: bytes, b: bytes) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length
