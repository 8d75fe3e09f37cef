"""Owns the escapes of texts: what stands between the quotes of a literal of Python, or as it is, as
a part of a JSON string."""

from __future__ import annotations

import json
import re

_UNESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPES = {bytes([byte]): json.dumps(chr(byte))[1:-1].encode() for byte in (*range(0x20), *b'"\\')}
_OF_LITERALS = re.compile(rb'(?s)[\x00-\x1f"]|\\(x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|.)')
_JSON_ESCAPES = frozenset(b'"\\/bfnrtu')
_ONLY_PYTHON = {b"'": b"'", b"a": b"\\u0007", b"v": b"\\u000b", b"\n": b""}
_MOST_CODE = 0x10FFFF


def escaped(text: bytes) -> bytes:
    """A part of a text, escaped as a part of a JSON string."""
    return _UNESCAPED.sub(lambda found: _ESCAPES[found[0]], text)


def as_json(inside: bytes) -> bytes:
    """A part of what stands between the quotes of a literal of Python, or of JSON, which has no
    piece of an escape, as a part of a JSON string."""
    return _OF_LITERALS.sub(_one, inside)


def _one(found: re.Match[bytes]) -> bytes:
    """A sign, or an escape, as JSON has it."""
    escape = found[1]
    if escape is None:
        return _ESCAPES[found[0]]
    if len(escape) > 1 and (code := int(escape[1:], 16)) <= _MOST_CODE:
        return json.dumps(chr(code))[1:-1].encode()
    if escape[0] in _JSON_ESCAPES:
        return found[0]
    return _ONLY_PYTHON.get(escape, b"\\\\" + escaped(escape))
