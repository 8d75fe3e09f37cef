"""Owns the self-test of a native adapter: a backend counts as native only if it can walk a small
grammar over a vocabulary of two letters."""

from __future__ import annotations

import numpy as np

from specguide import native
from specguide.guided.matcher import allowed_tokens
from specguide.tokenizer.vocabulary import Vocabulary

# Two letters, an end token and a token that no grammar allows. The padding makes a row two words.
SELF_TEST_VOCABULARY = Vocabulary(
    token_bytes=(b"a", b"b", b"", b"") + (b"",) * 32, eos_token_ids=(2,)
)


def check_native_walk(grammar: native.NativeGrammar) -> None:
    """Walk `ab?` over SELF_TEST_VOCABULARY. Raises RuntimeError on any difference from the
    contract."""
    matcher = grammar.matcher()
    row = np.full(SELF_TEST_VOCABULARY.num_words, -1, np.int32)

    def allowed() -> list[int]:
        matcher.fill(row)
        return allowed_tokens(row).tolist()

    seen = [
        allowed(),
        matcher.accept(1),
        matcher.accept(0),
        allowed(),
        matcher.accept(1),
        allowed(),
        matcher.accept(2),
        matcher.is_terminated,
    ]
    matcher.rollback(3)
    seen += [matcher.is_terminated, allowed()]
    expected = [[0], False, True, [1, 2], True, [2], True, True, False, [0]]
    if seen != expected:
        raise RuntimeError(f"its self-test saw {seen}, not {expected}")
