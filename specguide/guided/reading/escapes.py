"""Owns escapes: turns the inside of a Python literal, or raw text, into a part of a JSON string."""

from __future__ import annotations

import json
import re

_UNESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPES = {bytes([byte]): json.dumps(chr(byte))[1:-1].encode() for byte in (*range(0x20), *b'"\\')}
_BACKSLASH = ord("\\")
_JSON_ESCAPES = b'"\\/bfnrtu'
_ONLY_PYTHON = {b"'": b"'", b"a": b"\\u0007", b"v": b"\\u000b", b"\n": b""}
_MOST_CODE = 0x10FFFF
CODE_LENGTHS = {ord("x"): 2, ord("U"): 8}
"""Lengths of the codes in those escapes of Python that JSON does not have."""
HEX = b"0123456789abcdefABCDEF"


def escaped(text: bytes) -> bytes:
    """A part of a raw text as a part of a JSON string."""
    return _UNESCAPED.sub(lambda found: _ESCAPES[found[0]], text)


def as_json(inside: bytes) -> bytes:
    """A part of the inside of a Python or JSON literal as a part of a JSON string. It must not cut
    an escape."""
    shown, at = [], 0
    while found := _UNESCAPED.search(inside, at):
        one, behind = _one(inside, found.start())
        shown += [inside[at : found.start()], one]
        at = behind
    return b"".join((*shown, inside[at:]))


def _one(text: bytes, at: int) -> tuple[bytes, int]:
    """One character or escape as JSON, and the position behind it."""
    if text[at] != _BACKSLASH:
        return _ESCAPES[text[at : at + 1]], at + 1
    sign = text[at + 1 : at + 2]
    end = at + 2 + (CODE_LENGTHS.get(sign[0], 0) if sign else 0)
    digits = text[at + 2 : end]
    if digits and len(text) >= end and all(one in HEX for one in digits):
        code = int(digits, 16)
        if code <= _MOST_CODE:
            return json.dumps(chr(code))[1:-1].encode(), end
    if sign in _JSON_ESCAPES:
        return b"\\" + sign, at + 2
    return _ONLY_PYTHON.get(sign, b"\\\\" + escaped(sign)), at + 2
