"""Owns a small language for matcher tests: a vocabulary of twelve text tokens, an automaton, and a
plain matcher on it.

The language is `let x=(0|1)+(,x=(0|1)+)*;?`. It has forced text, places where it may end and go on,
and one where it can only end. The matcher is the contract written down once more, with nothing but
a list of states.
"""

from __future__ import annotations

import numpy as np

from specguide.guided.matcher import Row, allowed_tokens
from specguide.tokenizer.vocabulary import Vocabulary

PATTERN = "let x=(0|1)+(,x=(0|1)+)*;?"
TEXT_TOKENS = (b"let", b"le", b"t", b" ", b"x", b"=", b"x=", b"0", b"1", b"01", b",x", b";")
SPECIAL, EOS, OTHER_EOS = 12, 13, 15

# Wider than the tokens and no multiple of 32, as padded vocabularies are.
VOCABULARY = Vocabulary(
    token_bytes=TEXT_TOKENS + (b"",) * (45 - len(TEXT_TOKENS)), eos_token_ids=(EOS, OTHER_EOS)
)

_STEPS = {
    (0, "l"): 1,
    (1, "e"): 2,
    (2, "t"): 3,
    (3, " "): 4,
    (4, "x"): 5,
    (5, "="): 6,
    (6, "0"): 7,
    (6, "1"): 7,
    (7, "0"): 7,
    (7, "1"): 7,
    (7, ","): 4,
    (7, ";"): 8,
}
_MAY_END = {7, 8}
_ENDED = -1

# States from which exactly one text goes on, and that text in tokens; a row is asked no further
# than these.
FORCED_AT_START = [TEXT_TOKENS.index(token) for token in (b"let", b" ", b"x=")]


def token(text: bytes) -> int:
    """Id of a text token."""
    return TEXT_TOKENS.index(text)


def allowed_in(row: Row) -> list[int]:
    """Token ids whose bit is 1."""
    return allowed_tokens(row).tolist()


class CountingMatcher:
    """The plain matcher: a list of the automaton's states, one per accepted token."""

    def __init__(self) -> None:
        self._states = [0]

    def _next(self, token: int) -> int | None:
        state: int | None = self._states[-1]
        if token in VOCABULARY.eos_token_ids:
            return _ENDED if state in _MAY_END else None
        if not 0 <= token < len(TEXT_TOKENS):
            return None
        for char in TEXT_TOKENS[token].decode():
            state = _STEPS.get((state, char)) if state is not None else None
        return state

    def accept(self, token: int) -> bool:
        state = self._next(token)
        if state is None:
            return False
        self._states.append(state)
        return True

    def fill(self, row: Row) -> None:
        if self.is_terminated:
            raise RuntimeError("a terminated matcher fills nothing")
        bits = np.zeros(VOCABULARY.num_words * 32, np.uint8)
        bits[[token for token in range(len(VOCABULARY)) if self._next(token) is not None]] = 1
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def rollback(self, n: int) -> None:
        if not 0 <= n < len(self._states):
            raise ValueError(f"rollback of {n} tokens, {len(self._states) - 1} were accepted")
        del self._states[len(self._states) - n :]

    @property
    def is_terminated(self) -> bool:
        return self._states[-1] == _ENDED

    def forced_tokens(self) -> list[int]:
        text = {0: "let x=", 1: "et x=", 2: "t x=", 3: " x=", 4: "x=", 5: "="}.get(
            self._states[-1], ""
        ).encode()
        tokens = []
        while text:
            best = max(
                (t for t in range(len(TEXT_TOKENS)) if text.startswith(TEXT_TOKENS[t])),
                key=lambda t: len(TEXT_TOKENS[t]),
            )
            tokens.append(best)
            text = text[len(TEXT_TOKENS[best]) :]
        return tokens
