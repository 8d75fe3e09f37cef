"""Owns the search for places where one output may end: a second matcher follows the output, beside
the engine's own walk."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

import numpy as np

from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

_LOGGER = logging.getLogger(__name__)


class GrammarEnds:
    """Follows an output with its own matcher, only as far as it is asked about.

    After an error of the grammar library it no longer asks it: from then on the output may end
    nowhere.

    matcher: a matcher at its start; this object now owns it
    names:   what special tokens add to the output's text; empty: nothing
    """

    def __init__(
        self, matcher: Matcher, vocabulary: Vocabulary, names: Mapping[int, bytes] | None = None
    ) -> None:
        self._matcher: Matcher | None = matcher
        self._vocabulary, self._names = vocabulary, names or {}
        self._row = np.zeros(vocabulary.num_words, np.int32)
        self._tokens: list[int] = []
        self._num_taken = 0  # number of `_tokens` that the matcher has accepted
        self._num_bytes = 0  # bytes of these accepted tokens

    def add(self, token: int) -> None:
        """Take the output's next token."""
        self._tokens.append(token)

    def may_end(self, num_bytes: int | None = None) -> bool:
        """Whether the output may end here, by the grammar.

        num_bytes: ask about the output's first bytes instead; None: the whole output
        """
        if self._matcher is None:
            return False
        try:
            return self._may_end(self._matcher, num_bytes)
        except Exception as error:
            _LOGGER.warning("stops are ignored from here on: %s", error, exc_info=error)
            self._matcher = None
            return False

    def _may_end(self, matcher: Matcher, num_bytes: int | None) -> bool:
        most_bytes = sys.maxsize if num_bytes is None else num_bytes
        while self._num_bytes > most_bytes:
            matcher.rollback(1)
            self._num_taken -= 1
            self._num_bytes -= len(self._spelled(self._tokens[self._num_taken]))
        rest = b""
        for token in self._tokens[self._num_taken :]:
            rest = self._spelled(token)
            if self._num_bytes + len(rest) > most_bytes or not matcher.accept(token):
                break
            self._num_taken += 1
            self._num_bytes += len(rest)
        if num_bytes is None:
            return self._may_end_behind(matcher, b"")
        rest = rest[: num_bytes - self._num_bytes]
        if rest and self._tokens[self._num_taken] in self._names:
            return False  # inside the name of a special token
        return self._num_bytes + len(rest) == num_bytes and self._may_end_behind(matcher, rest)

    def _spelled(self, token: int) -> bytes:
        """What a token adds to the output's text."""
        return self._vocabulary.token_bytes[token] or self._names.get(token, b"")

    def _may_end_behind(self, matcher: Matcher, rest: bytes) -> bool:
        """Whether the output may end behind the matcher's tokens and `rest`, the first bytes of the
        token within which the text ends."""
        num_taken = 0
        try:
            while rest:
                token = _longest(self._vocabulary.ids_by_bytes, rest)
                if token is None or not matcher.accept(token):
                    return False
                num_taken += 1
                rest = rest[len(self._vocabulary.token_bytes[token]) :]
            return matcher.is_terminated or self._has_end(matcher)
        finally:
            matcher.rollback(num_taken)

    def _has_end(self, matcher: Matcher) -> bool:
        matcher.fill(self._row)
        words = self._row.view(np.uint32)
        return any(words[end // 32] >> (end % 32) & 1 for end in self._vocabulary.eos_token_ids)


def _longest(ids: Mapping[bytes, int], text: bytes) -> int | None:
    """The longest token with which a text begins; None where there is none."""
    ends = range(len(text), 0, -1)
    return next((ids[text[:end]] for end in ends if text[:end] in ids), None)
