"""Owns what a grammar allowed in each place of an output, found again by a matcher beside the
engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specguide.guided.matcher import Matcher, allowed_tokens
from specguide.tokenizer.vocabulary import Vocabulary

MAX_SAMPLE = 48
"""Allowed tokens of a place that are named."""


@dataclass(frozen=True)
class Allowed:
    """The tokens that the grammar allowed in one place.

    num_tokens:     how many; 1: the token was forced
    sample:         ids of the first ones in order of their ids, MAX_SAMPLE at most
    is_text_forced: whatever could come began with the text of the token that came, however that is
                    cut into tokens
    """

    num_tokens: int
    sample: tuple[int, ...]
    is_text_forced: bool


class AllowedWalk:
    """Follows a request's output with a matcher of its own. Raises what the grammar library does.

    matcher: at the beginning; from now on this object's
    """

    def __init__(self, matcher: Matcher, vocabulary: Vocabulary) -> None:
        self._matcher = matcher
        self._token_bytes = vocabulary.token_bytes
        self._row = np.zeros(vocabulary.num_words, np.int32)

    def take(self, token: int) -> Allowed | None:
        """What was allowed in the place of the next token; None where the grammar has ended or
        refuses it."""
        if self._matcher.is_terminated:
            return None
        ids = self._ids()
        text = self._token_bytes[token]
        is_text_forced = bool(text) and self._is_forced(text, ids)
        if not self._matcher.accept(token):
            return None
        return Allowed(len(ids), tuple(ids[:MAX_SAMPLE].tolist()), is_text_forced)

    def _ids(self) -> npt.NDArray[np.int64]:
        """The ids of the tokens that may come next, in order."""
        self._matcher.fill(self._row)
        return allowed_tokens(self._row)

    def _is_forced(self, text: bytes, ids: npt.NDArray[np.int64]) -> bool:
        """All allowed tokens go along with the text, and again behind the shortest of them, with
        which all begin."""
        num_taken = 0
        while text and all(_go_along(self._token_bytes[one], text) for one in ids):
            shortest = min(ids.tolist(), key=lambda one: len(self._token_bytes[one]))
            text = text[len(self._token_bytes[shortest]) :]
            if text:
                num_taken += self._matcher.accept(shortest)
                ids = self._ids()
        self._matcher.rollback(num_taken)
        return not text


def _go_along(piece: bytes, text: bytes) -> bool:
    """One of them begins with the other; an end token goes along with nothing."""
    return bool(piece) and (text.startswith(piece) or piece.startswith(text))


def free(_: int) -> Allowed | None:
    """Instead of AllowedWalk.take for a request without a grammar."""
    return None


Take = Callable[[int], Allowed | None]
