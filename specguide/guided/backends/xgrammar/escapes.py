"""Owns the escapes of characters in texts for xgrammar.

The library reads all hexadecimal digits behind `\\x`, but prints `\\x` with two of them: it would
read "\\x09A" as one character.
"""

from __future__ import annotations

_CONTROLS = {f"{code:02x}": chr(code) for code in (*range(1, 0x20), 0x7F)}
_NEVER_PLAIN = {"00": r"\u{0}", "0a": r"\n", "0d": r"\r"}
_PLAIN = {**_CONTROLS, **_NEVER_PLAIN}


def with_closed_escapes(ebnf: str) -> str:
    """An EBNF grammar in which escapes with two hexadecimal digits end behind these."""
    return r"\\".join(part.replace(r"\x", r"\u00") for part in ebnf.split(r"\\"))


def with_plain_controls(pattern: str) -> str:
    """A regular expression with control characters themselves in place of their `\\x` escapes."""
    return r"\\".join(map(_with_plain_controls, pattern.split(r"\\")))


def _with_plain_controls(part: str) -> str:
    first, *others = part.split(r"\x")
    return first + "".join(_PLAIN.get(one[:2], rf"\x{one[:2]}") + one[2:] for one in others)
