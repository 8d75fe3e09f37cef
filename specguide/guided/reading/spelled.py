"""Owns the bytes by which tokens are read: their own, and for special tokens a spelling that occurs
in no text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from specguide.guided.tools.call_starts import parts_of

_DIGIT_BITS, _NUM_DIGITS = 6, 4
_SPECIAL = re.compile(rb"\xff[\x80-\xbf][\x80-\xbf][\x80-\xbf][\x80-\xbf]\xfe")


def special_bytes(token: int) -> bytes:
    """The bytes by which a special token is read. Two of them are not UTF-8, and the others begin
    no character."""
    shifts = range((_NUM_DIGITS - 1) * _DIGIT_BITS, -1, -_DIGIT_BITS)
    return b"\xff" + bytes(0x80 | token >> shift & 0x3F for shift in shifts) + b"\xfe"


def mark_bytes(text: str, ids: Mapping[str, int]) -> bytes:
    """The bytes of a text with special tokens in it. ids: the special tokens by their texts"""
    parts = parts_of(text, ids)
    return b"".join(special_bytes(ids[part]) if part in ids else part.encode() for part in parts)


def without_specials(data: bytes) -> bytes:
    """The bytes without the special tokens among them, which are not text."""
    return _SPECIAL.sub(b"", data) if b"\xff" in data else data


class SpelledTokens:
    """The bytes by which each token of a vocabulary is read.

    token_bytes:   each token's own bytes; empty for special tokens
    end_token_ids: tokens that add nothing to an output
    """

    def __init__(self, token_bytes: Sequence[bytes], end_token_ids: Iterable[int]) -> None:
        self._token_bytes = token_bytes
        self._ends = frozenset(end_token_ids)

    def __getitem__(self, token: int) -> bytes:
        return self._token_bytes[token] or (b"" if token in self._ends else special_bytes(token))
