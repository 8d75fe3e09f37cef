"""Owns the escapes of characters in what xgrammar is given.

The library reads as many hexadecimal digits behind `\\x` as there are, and prints `\\x` with two of
them: "\\x09A" would be one character.
"""

from __future__ import annotations

_CONTROLS = {f"{code:02x}": chr(code) for code in (*range(1, 0x20), 0x7F)}
_NEVER_PLAIN = {"00": r"\u{0}", "0a": r"\n", "0d": r"\r"}
_PLAIN = {**_CONTROLS, **_NEVER_PLAIN}


def with_closed_escapes(ebnf: str) -> str:
    """An EBNF grammar whose escapes of two hexadecimal digits end behind them."""
    return r"\\".join(part.replace(r"\x", r"\u00") for part in ebnf.split(r"\\"))


def with_plain_controls(pattern: str) -> str:
    """A regular expression that has control characters as they are, and not as `\\x`."""
    return r"\\".join(map(_with_plain_controls, pattern.split(r"\\")))


def _with_plain_controls(part: str) -> str:
    first, *others = part.split(r"\x")
    return first + "".join(_PLAIN.get(one[:2], rf"\x{one[:2]}") + one[2:] for one in others)
