"""Owns vocabularies of single bytes beside some longer texts, and walks of matchers over them."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

import numpy as np

from specguide.guided.matcher import Matcher, allowed_tokens
from specguide.tokenizer.vocabulary import Vocabulary


class ByteWalks:
    """Walks over a vocabulary of all bytes, each with its value as its id, `merged` and an end."""

    def __init__(self, merged: Collection[str]) -> None:
        texts = (text.encode() for text in merged)
        self.tokens = [*(bytes([byte]) for byte in range(256)), *texts, b""]
        self.end = len(self.tokens) - 1
        self.vocabulary = Vocabulary(tuple(self.tokens), (self.end,))

    def takes(self, grammar: Any, text: str) -> bool:
        """Whether a grammar takes the whole text, byte by byte, and may end there."""
        matcher = grammar.matcher()
        return all(matcher.accept(byte) for byte in text.encode()) and matcher.accept(self.end)

    def allowed(self, matcher: Matcher) -> list[int]:
        """The tokens that may follow."""
        row = np.zeros(self.vocabulary.num_words, np.int32)
        matcher.fill(row)
        return allowed_tokens(row).tolist()

    def text(self, tokens: Collection[int]) -> bytes:
        """The text of some tokens."""
        return b"".join(self.tokens[token] for token in tokens)

    def walk(
        self, matcher: Matcher, choose: Random, likely: Collection[bytes], num_steps: int
    ) -> bytes | None:
        """Walk at random, with rollbacks. Checks that a bit is set just where its token is taken,
        that nothing but an end ends the walk, and that rollbacks lead back to the same rows.

        likely: tokens that are chosen where any of them is allowed

        Returns the text; None where it has not ended after num_steps tokens.
        """
        taken: list[int] = []
        rows = [self.allowed(matcher)]
        for step in range(num_steps):
            assert rows[-1], self.text(taken)
            for token in choose.sample(range(len(self.tokens)), 6):
                assert (token in rows[-1]) == matcher.accept(token)
                if token in rows[-1]:
                    matcher.rollback(1)
            best = [token for token in rows[-1] if self.tokens[token] in likely] or rows[-1]
            token = self.end if self.end in rows[-1] and step > 20 else choose.choice(best)
            assert matcher.accept(token)
            taken.append(token)
            if token == self.end:
                return self.text(taken)
            rows.append(self.allowed(matcher))
            if choose.random() < 0.2:
                num_back = choose.randint(1, len(taken))
                matcher.rollback(num_back)
                del taken[-num_back:], rows[-num_back:]
                assert self.allowed(matcher) == rows[-1]
        return None
