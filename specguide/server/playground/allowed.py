"""Owns what a grammar allowed in each place of an output, found again by a matcher beside the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

MAX_SAMPLE = 48
"""Allowed tokens of a place that are named."""


@dataclass(frozen=True)
class Allowed:
    """The tokens that the grammar allowed in one place.

    num_tokens:     how many; 1: the token was forced
    sample:         ids of the first ones in order of their ids, MAX_SAMPLE at most
    is_text_forced: the grammar library knows that no other text could begin here, however it is cut into tokens
    """

    num_tokens: int
    sample: tuple[int, ...]
    is_text_forced: bool


class AllowedWalk:
    """Follows a request's output with a matcher of its own. Raises what the grammar library does.

    matcher: at the beginning; from now on this object's
    """

    def __init__(self, matcher: Matcher, vocabulary: Vocabulary) -> None:
        self._matcher, self._token_bytes = matcher, vocabulary.token_bytes
        self._row = np.zeros(vocabulary.num_words, np.int32)

    def take(self, token: int) -> Allowed | None:
        """What was allowed in the place of the next token; None where the grammar has ended or refuses it."""
        if self._matcher.is_terminated:
            return None
        self._matcher.fill(self._row)
        ids = np.flatnonzero(np.unpackbits(self._row.view(np.uint8), bitorder="little"))
        forced_text = b"".join(self._token_bytes[one] for one in self._matcher.forced_tokens())
        if not self._matcher.accept(token):
            return None
        text = self._token_bytes[token]
        return Allowed(len(ids), tuple(ids[:MAX_SAMPLE].tolist()), bool(text) and forced_text.startswith(text))


def free(_: int) -> Allowed | None:
    """Instead of AllowedWalk.take for a request without a grammar."""
    return None


Take = Callable[[int], Allowed | None]
