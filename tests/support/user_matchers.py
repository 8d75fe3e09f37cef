"""A matcher as a user writes it."""

from __future__ import annotations

import numpy as np

EOS = 256


class Alternating:
    """Allows "a" and "b" in turn, and the end after six tokens."""

    LETTERS = (64, 65)  # of the tiny model's tokenizer

    def __init__(self) -> None:
        self.taken: list[int] = []

    def allowed(self) -> list[int]:
        if self.is_terminated:
            return []
        return [EOS] if len(self.taken) == 6 else [self.LETTERS[len(self.taken) % 2]]

    def accept(self, token: int) -> bool:
        if token not in self.allowed():
            return False
        self.taken.append(token)
        return True

    def fill(self, row: np.ndarray) -> None:
        row[:] = 0
        for token in self.allowed():
            row[token // 32] |= np.int32(1 << (token % 32))

    def rollback(self, n: int) -> None:
        self.taken = self.taken[: len(self.taken) - n]

    @property
    def is_terminated(self) -> bool:
        return self.taken[-1:] == [EOS]

    def forced_tokens(self) -> list[int]:
        return []
