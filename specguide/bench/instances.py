"""Owns how instances are tried on a grammar (as texts with different whitespace and key order), and
how random texts are drawn from one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

EOS = 256
BYTES = Vocabulary(token_bytes=(*(bytes([byte]) for byte in range(256)), b""), eos_token_ids=(EOS,))
"""Every byte is a token, so compiles are fast and every text has exactly one spelling."""

DEAD_END = "nothing may follow"
"""How the error of a walk into a dead end begins."""
MAX_TEXTS = 100_000
_STYLES: tuple[dict[str, Any], ...] = ({"separators": (",", ":")}, {}, {"indent": 1})
_COMMON = np.frombuffer(b'"abcxyz019-., :{}[]tfn\\/', np.uint8)
_CLOSING = np.frombuffer(b'"}]', np.uint8)
_SHORT = np.frombuffer(b"01tfn", np.uint8)
_SPACES = np.frombuffer(b" \n\r\t", np.uint8)


def texts(instance: Any, schema: Any) -> list[str]:
    """An instance as JSON texts: with its keys unchanged and in the schema's order, in several
    whitespace styles."""
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys(_names(schema)))}
    return list(
        dict.fromkeys(
            json.dumps(ordered, ensure_ascii=False, **style)
            for ordered in (instance, _ordered(instance, ranks))
            for style in _STYLES
        )
    )


def _names(schema: Any) -> Iterator[str]:
    """Property names in the order in which a schema mentions them."""
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
        return {
            key: _ordered(value[key], ranks)
            for key in sorted(value, key=lambda key: ranks.get(key, len(ranks)))
        }
    return [_ordered(item, ranks) for item in value] if isinstance(value, list) else value


def in_orders(instance: Any, seed: str, num: int) -> list[str]:
    """An instance as compact JSON, and `num` more texts with its keys in random orders."""
    rng = random.Random(seed)
    shuffled = [json.dumps(_shuffled(instance, rng), ensure_ascii=False) for _ in range(num)]
    return [json.dumps(instance, ensure_ascii=False, separators=(",", ":")), *shuffled]


def _shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {name: _shuffled(value[name], rng) for name in rng.sample(list(value), len(value))}
    return [_shuffled(item, rng) for item in value] if isinstance(value, list) else value


def takes(grammar: CompiledGrammar, text: str) -> bool:
    """Whether a grammar over BYTES accepts the whole text and may end there."""
    matcher = grammar.matcher()
    try:
        return all(
            matcher.accept(byte) for byte in text.encode("utf-8", "surrogatepass")
        ) and matcher.accept(EOS)
    except RuntimeError:
        return False


def takes_any(grammar: CompiledGrammar, instance: Any, schema: Any) -> bool:
    """Whether a grammar accepts some text of an instance."""
    return any(takes(grammar, text) for text in texts(instance, schema))


def takes_in_some_order(
    grammar: CompiledGrammar, instance: Any, schema: Any, most_texts: int = MAX_TEXTS
) -> bool:
    """Whether a grammar accepts an instance with its keys in the order that it wants, which is
    found by trying. most_texts: how many keys and values are tried"""
    return in_some_order(grammar, instance, schema, most_texts) is not None


def in_some_order(
    grammar: CompiledGrammar, instance: Any, schema: Any, most_texts: int = MAX_TEXTS
) -> str | None:
    """A text of an instance with its keys in an order that a grammar accepts, found by trying."""
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys(_names(schema)))}
    try:
        for style in ((",", ":"), (", ", ": ")):
            writer = _Writer(grammar.matcher(), style, ranks, most_texts)
            if writer.ends(instance):
                return writer.taken.decode("utf-8", "surrogatepass")
    except RuntimeError:
        pass
    return None


class _Writer:
    """Writes an instance to a matcher. If a key would come too late, its object is begun again with
    that key further ahead.

    After `most_texts` keys and values it accepts no more.
    """

    def __init__(
        self,
        matcher: Matcher,
        style: tuple[str, str],
        ranks: Mapping[str, int],
        most_texts: int,
    ) -> None:
        self._matcher = matcher
        self._comma, self._colon = style
        self._ranks = ranks
        self.taken = bytearray()
        self._num_texts = 0
        self._most_texts = most_texts

    def ends(self, value: Any) -> bool:
        """Whether the matcher accepts the value and may end after it."""
        return self._value(value) and self._matcher.accept(EOS)

    def _value(self, value: Any) -> bool:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return (
                self._text("[")
                and all(
                    self._text(self._comma if i else "") and self._value(item)
                    for i, item in enumerate(value)
                )
                and self._text("]")
            )
        return self._text(json.dumps(value, ensure_ascii=False))

    def _object(self, value: dict[str, Any]) -> bool:
        names = sorted(value, key=lambda name: self._ranks.get(name, len(self._ranks)))
        start = len(self.taken)
        for _ in range(len(names) ** 2 + 1):
            taken: list[str] = []
            last_open: dict[str, int] = {}
            if (
                self._text("{")
                and self._members(value, names, taken, last_open)
                and self._text("}")
            ):
                return True
            self._back_to(start)
            late = next((name for name in names if name not in taken and name in last_open), None)
            if late is None or last_open[late] >= len(taken):
                return False
            names.remove(late)
            names.insert(names.index(taken[last_open[late]]), late)
        return False

    def _members(
        self, value: dict[str, Any], names: list[str], taken: list[str], last_open: dict[str, int]
    ) -> bool:
        """Write the first name that may come, again and again. Notes when each name could last have
        come."""
        while len(taken) < len(names):
            comma = self._comma if taken else ""
            keys = {
                name: f"{comma}{json.dumps(name, ensure_ascii=False)}{self._colon}"
                for name in names
                if name not in taken
            }
            may_come = [name for name, key in keys.items() if self._text(key, keep=False)]
            last_open.update(dict.fromkeys(may_come, len(taken)))
            found = next((name for name in may_come if self._member(keys[name], value[name])), None)
            if found is None:
                return False
            taken.append(found)
        return True

    def _member(self, key: str, value: Any) -> bool:
        start = len(self.taken)
        if self._text(key) and self._value(value):
            return True
        self._back_to(start)
        return False

    def _text(self, text: str, *, keep: bool = True) -> bool:
        start = len(self.taken)
        self._num_texts += 1
        if self._num_texts > self._most_texts:
            return False
        for byte in text.encode("utf-8", "surrogatepass"):
            if not self._matcher.accept(byte):
                self._back_to(start)
                return False
            self.taken.append(byte)
        if not keep:
            self._back_to(start)
        return True

    def _back_to(self, num_taken: int) -> None:
        self._matcher.rollback(len(self.taken) - num_taken)
        del self.taken[num_taken:]


def draw(
    matcher: Matcher, rng: random.Random, max_len: int = 300, vocabulary: Vocabulary = BYTES
) -> str | None:
    """A random text that a matcher over `vocabulary` allows, up to its end token; None if it does
    not end.

    Past `max_len` tokens it prefers tokens that close strings, arrays and objects. If the
    vocabulary has tokens longer than a byte, two in five choices are any allowed token. Raises
    RuntimeError if nothing is allowed.
    """
    drawn, row = bytearray(), np.zeros(vocabulary.num_words, np.int32)
    ids, ends = _byte_ids(vocabulary), np.array(vocabulary.eos_token_ids)
    for step in range(3 * max_len):
        matcher.fill(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(vocabulary)]
        may_end = bits[ends].any()
        by_byte = bits[ids]
        bits[ends] = 0
        if may_end and (not bits.any() or step > max_len or rng.random() < 0.25):
            return drawn.decode(errors="replace")
        if not bits.any():
            raise RuntimeError(f"{DEAD_END} {bytes(drawn)!r}")
        allowed = np.flatnonzero(by_byte)
        if not len(allowed) or (len(vocabulary) > 257 and step <= max_len and rng.random() < 0.4):
            token = int(rng.choice(np.flatnonzero(bits)))
        else:
            token = int(ids[rng.choice(_preferred(allowed, by_byte, rng, late=step > max_len))])
        matcher.accept(token)
        drawn += vocabulary.token_bytes[token]
    return None


@lru_cache(maxsize=2)
def _byte_ids(vocabulary: Vocabulary) -> Any:
    """[256] the token of each byte."""
    found = {text: token for token, text in enumerate(vocabulary.token_bytes) if len(text) == 1}
    return np.array([found[bytes([byte])] for byte in range(256)])


def _preferred(allowed: Any, bits: Any, rng: random.Random, *, late: bool) -> Any:
    """Some of the allowed bytes: those that lead to short and varied texts."""
    if rng.random() < 0.9:
        dense = allowed[~np.isin(allowed, _SPACES)]
        allowed = dense if len(dense) else allowed
    for wanted, odds in (
        ((_CLOSING, 0.8), (_SHORT, 0.7)) if late else ((_COMMON, 0.6), (_CLOSING[:1], 0.4))
    ):
        found = wanted[bits[wanted] != 0]
        if len(found) and rng.random() < odds:
            return found
    return allowed
