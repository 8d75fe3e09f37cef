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


def shown_bytes(data: bytes, names: Mapping[int, bytes]) -> bytes:
    """The bytes with the names of the special tokens among them; those without a name are not
    text."""
    if b"\xff" not in data:
        return data
    return _SPECIAL.sub(lambda found: names.get(_token_of(found[0]), b""), data)


def reach(data: bytes, names: Mapping[int, bytes], num_shown: int) -> tuple[int, int]:
    """How many bytes have the first `num_shown` of `shown_bytes`, and how many of these they show:
    fewer where these end inside a name."""
    at = shown = 0
    for found in _SPECIAL.finditer(data):
        num_before, name = found.start() - at, names.get(_token_of(found[0]), b"")
        if num_before + len(name) > num_shown - shown:
            if num_before < num_shown - shown:
                return found.start(), shown + num_before
            break
        at, shown = found.end(), shown + num_before + len(name)
    return at + num_shown - shown, num_shown


def _token_of(spelled: bytes) -> int:
    """The special token that `special_bytes` spells so."""
    token = 0
    for digit in spelled[1:-1]:
        token = token << _DIGIT_BITS | digit & 0x3F
    return token


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
