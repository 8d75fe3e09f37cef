"""A grammar of one chain of tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

VOCAB, WORDS, END = 40, 2, 39


class ChainMatcher:
    """Token t may be followed by t + 1 alone, and by the end token where t is a multiple of 5.
    Starts at 0."""

    def __init__(self, before_fill: Callable[[], None] = lambda: None) -> None:
        self.tokens: list[int] = [-1]
        self.before_fill = before_fill
        self.num_fills = 0

    def _allowed(self) -> set[int]:
        last = self.tokens[-1]
        return {last + 1} | ({END} if last % 5 == 0 else set())

    def accept(self, token: int) -> bool:
        if self.is_terminated or token not in self._allowed():
            return False
        self.tokens.append(token)
        return True

    def fill(self, row: np.ndarray) -> None:
        self.num_fills += 1
        self.before_fill()
        row[:] = 0
        for token in self._allowed():
            row.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)

    def rollback(self, n: int) -> None:
        assert 0 < n < len(self.tokens)
        del self.tokens[-n:]

    @property
    def is_terminated(self) -> bool:
        return self.tokens[-1] == END

    def forced_tokens(self) -> list[int]:
        return []
