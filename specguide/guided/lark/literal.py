"""Owns a text as a literal of Lark, and as a part of a regular expression in it."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii

_BRACKETS = frozenset("[](){}")
_ESCAPED_BRACKETS = {ord(bracket): f"\\u{ord(bracket):04x}" for bracket in _BRACKETS}


def literal(text: str) -> str:
    """A text as a literal, whose brackets are none that a limit of depth counts."""
    written = encode_basestring_ascii(text)
    has_none = _BRACKETS.isdisjoint(written)
    return written if has_none else written.translate(_ESCAPED_BRACKETS)


def pattern_of(text: str) -> str:
    """The regular expression of a text alone."""
    return "".join(f"\\x{{{ord(char):x}}}" for char in text)
