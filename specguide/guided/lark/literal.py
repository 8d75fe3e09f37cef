"""Owns the writing of a text as a Lark literal, and as a part of a regular expression."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii

_BRACKETS = frozenset("[](){}")
_ESCAPED_BRACKETS = {ord(bracket): f"\\u{ord(bracket):04x}" for bracket in _BRACKETS}


def literal(text: str) -> str:
    """A text as a literal. Its brackets are escaped, so that the limit of depth does not count
    them."""
    written = encode_basestring_ascii(text)
    has_none = _BRACKETS.isdisjoint(written)
    return written if has_none else written.translate(_ESCAPED_BRACKETS)


def pattern_of(text: str) -> str:
    """A regular expression that matches only this text."""
    return "".join(f"\\x{{{ord(char):x}}}" for char in text)
