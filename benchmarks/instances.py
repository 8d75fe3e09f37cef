"""Owns how instances meet a grammar: fed as texts of different whitespace and key order, or drawn from its rows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

EOS = 256
BYTES = Vocabulary(token_bytes=(*(bytes([byte]) for byte in range(256)), b""), eos_token_ids=(EOS,))
"""Every byte is a token; fast to compile for, and every text has one spelling."""

_STYLES: tuple[dict[str, Any], ...] = ({"separators": (",", ":")}, {}, {"indent": 1})
_COMMON = np.frombuffer(b'"abcxyz019-., :{}[]tfn\\/', np.uint8)
_CLOSING = np.frombuffer(b'"}]', np.uint8)
_SHORT = np.frombuffer(b"01tfn", np.uint8)
_SPACES = np.frombuffer(b" \n\r\t", np.uint8)


def texts(instance: Any, schema: Any) -> Iterator[str]:
    """An instance as JSON texts: with its keys as they are and in the schema's order, in several whitespace styles."""
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys(_names(schema)))}
    for ordered in (instance, _ordered(instance, ranks)):
        for style in _STYLES:
            yield json.dumps(ordered, ensure_ascii=False, **style)


def _names(schema: Any) -> Iterator[str]:
    """Property names in the order in which a schema speaks of them."""
    if isinstance(schema, Mapping):
        for keyword, value in schema.items():
            if keyword in ("properties", "required") and not isinstance(value, bool):
                yield from (name for name in value if isinstance(name, str))
            yield from _names(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _names(item)


def _ordered(value: Any, ranks: Mapping[str, int]) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key], ranks) for key in sorted(value, key=lambda key: ranks.get(key, len(ranks)))}
    return [_ordered(item, ranks) for item in value] if isinstance(value, list) else value


def takes(grammar: CompiledGrammar, text: str) -> bool:
    """Whether a grammar over BYTES takes the whole text and may end there."""
    matcher = grammar.matcher()
    try:
        return all(matcher.accept(byte) for byte in text.encode("utf-8", "surrogatepass")) and matcher.accept(EOS)
    except RuntimeError:
        return False


def takes_any(grammar: CompiledGrammar, instance: Any, schema: Any) -> bool:
    """Whether a grammar takes some text of an instance."""
    return any(takes(grammar, text) for text in texts(instance, schema))


def draw(matcher: Matcher, rng: random.Random, max_len: int = 300) -> str | None:
    """A random text that a matcher over BYTES allows, up to its end token; None where it does not end.

    Past `max_len` bytes it takes what closes strings, arrays and objects. Raises RuntimeError when nothing is allowed.
    """
    drawn, row = bytearray(), np.zeros(BYTES.num_words, np.int32)
    for step in range(3 * max_len):
        matcher.fill(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[:256])
        if bits[EOS] and (not len(allowed) or step > max_len or rng.random() < 0.25):
            return drawn.decode(errors="replace")
        if not len(allowed):
            raise RuntimeError(f"nothing may follow {bytes(drawn)!r}")
        byte = int(rng.choice(_preferred(allowed, bits, rng, late=step > max_len)))
        matcher.accept(byte)
        drawn.append(byte)
    return None


def _preferred(allowed: Any, bits: Any, rng: random.Random, *, late: bool) -> Any:
    """Some of the allowed bytes: those that make short and varied texts."""
    if rng.random() < 0.9:
        dense = allowed[~np.isin(allowed, _SPACES)]
        allowed = dense if len(dense) else allowed
    for wanted, odds in (((_CLOSING, 0.8), (_SHORT, 0.7)) if late else ((_COMMON, 0.6), (_CLOSING[:1], 0.4))):
        found = wanted[bits[wanted] != 0]
        if len(found) and rng.random() < odds:
            return found
    return allowed
