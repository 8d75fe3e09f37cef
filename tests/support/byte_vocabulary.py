"""Owns a vocabulary of single bytes with some words, and the question whether a grammar takes a
text."""

from __future__ import annotations

import functools

from specguide.guided.backends import Backend, CompiledGrammar, create_backend
from specguide.tokenizer.vocabulary import Vocabulary

_WORDS = (
    b'{"',
    b'":',
    b'": ',
    b'", "',
    b'"}',
    b"name",
    b"true",
    b"false",
    b"null",
    b" a",
    b"12",
    b"0.",
    b"\xc3\xa9",
    b"\xe2\x82",
    b"],[",
    b"}}",
    b"  ",
    b"\n  ",
    b'":"',
    b"abc",
)
EOS, OTHER_EOS = 256 + len(_WORDS) + 1, 256 + len(_WORDS) + 2
VOCABULARY = Vocabulary(
    token_bytes=(*(bytes([byte]) for byte in range(256)), *_WORDS, *(b"",) * 30),
    eos_token_ids=(EOS, OTHER_EOS),
)


@functools.cache
def backend(name: str, native: bool) -> Backend:
    """A backend over this vocabulary."""
    return create_backend(name, VOCABULARY, native=native)


def num_tokens(text: str) -> int:
    """Number of tokens of a text that has no words of this vocabulary but '":'."""
    return len(text.replace('":', ":"))


def takes(grammar: CompiledGrammar, text: str | bytes) -> bool:
    """Whether the grammar takes the whole text, byte by byte, and may end there."""
    matcher = grammar.matcher()
    data = text.encode() if isinstance(text, str) else text
    return all(matcher.accept(byte) for byte in data) and matcher.accept(EOS)
