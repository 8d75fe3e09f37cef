"""Owns the checks of single masks: every bit against JSON itself, and some bits against the
validator.

A 1 bit is wrong if no valid text continues so: JSON does not allow it, the validator has an error
that remains in every continuation, the grammar reaches a dead end, or the text in which it ends is
not an instance. A 0 bit is wrong if an instance continues so in a canonical spelling, and the
grammar accepts its keys in no other order. A bit for which neither is proven is undecided.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from specguide.bench.certificate.json_prefix import JsonPrefix
from specguide.bench.certificate.judge import Judge
from specguide.bench.certificate.partial import Partial, partial
from specguide.bench.certificate.variants import completed, is_written, spelled
from specguide.bench.instances import BYTES, EOS, takes_any, takes_in_some_order
from specguide.bench.validation import exactly
from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import Matcher

_MOST_COMPLETED = 16
_DELETE = 0x7F
_MOST_STEPS = 300
_AT_RANDOM = 0.1
_RANKS = np.zeros(EOS, np.int32)
for _rank, _byte in enumerate(b'{[zyxaeostfn9876543210.-T:,]}"'):
    _RANKS[_byte] = _rank + 1
"""Bytes that end values soon rank high; 0: no rank."""
_MOST_FAULTS = 20


@dataclass
class Tally:
    """The counts of a run.

    counts: by name
    faults: the first proven errors, as text
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def fault(self, kind: str, words: str) -> None:
        """Count a proven error."""
        self.counts[kind] += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(f"{kind}: {words}")


@dataclass(frozen=True)
class Known:
    """A text along which masks are checked.

    instance: the JSON value that it spells, if that is an instance
    style:    the style of its spelling; None if it is in none of the styles
    """

    text: str
    instance: Any = None
    style: str | None = None


class MaskChecks:
    """Checks the masks of one schema's grammar over BYTES.

    bits: how many bits of a mask are checked by the validator, half of them 1 and half 0
    """

    def __init__(
        self,
        grammar: CompiledGrammar,
        schema: Any,
        judge: Judge,
        known_values: list[Any],
        bits: int,
        rng: random.Random,
    ) -> None:
        self._grammar, self._schema, self._judge = grammar, schema, judge
        self._known_values, self._bits, self._rng = known_values, bits, rng
        self.tally = Tally()

    def along(self, known: Known, most: int) -> None:
        """Check at most `most` masks, at random places along a text that the grammar accepts."""
        data = known.text.encode()
        places = range(len(data) + 1)
        chosen = set(places if len(places) <= most else self._rng.sample(places, most))
        matcher, prefix = _Counted(self._grammar.matcher()), JsonPrefix()
        row = np.zeros(BYTES.num_words, np.int32)
        for at, byte in enumerate([*data, EOS]):
            if at in chosen:
                matcher.fill(row)
                bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: EOS + 1] != 0
                self._check(known, data[:at], bits, matcher, prefix)
                if known.instance is not None and not bits[byte]:
                    self._wrong(
                        "over", data[:at], byte, "forbidden, but the matcher accepts the text"
                    )
            if not matcher.accept(byte) or not (byte == EOS or prefix.take(byte)):
                return

    def _check(
        self, known: Known, before: bytes, bits: Any, matcher: _Counted, prefix: JsonPrefix
    ) -> None:
        counts, viable = self.tally.counts, prefix.viable
        counts["masks"] += 1
        counts["bits"] += len(bits)
        counts["bits_by_json"] += int((~viable).sum())
        for byte in np.flatnonzero(bits & ~viable)[:1]:
            self._wrong("under", before, int(byte), "allowed, but no JSON text continues like this")
        if viable[EOS]:
            self._check_end(before, bool(bits[EOS]))
        for wanted in (bits, ~bits):
            some = np.flatnonzero(wanted & viable)
            some = some[some != EOS]
            for byte in self._rng.sample(some.tolist(), min(len(some), self._bits // 2)):
                counts["bits_tried"] += 1
                if bits[byte]:
                    self._check_one(before, byte, matcher)
                else:
                    self._check_zero(known, before, byte)

    def _check_end(self, before: bytes, may_end: bool) -> None:
        """Check a text that JSON may end behind. If the grammar does not let it end, that is an
        error only if the text is spelled as by `json.dumps`."""
        self.tally.counts["bits_tried"] += 1
        text = before.decode()
        try:
            wrong = self._judge.violation(text)
        except LookupError:
            self._undecided()
            return
        if may_end and wrong is not None:
            self._wrong("under", before, EOS, wrong)
        elif not may_end and wrong is None and spelled(json.loads(text), "spaced") == text:
            if self._judge.is_sure:
                self._wrong("over", before, EOS, "forbidden, but the text is an instance")
            else:
                self._undecided()

    def _check_one(self, before: bytes, byte: int, matcher: _Counted) -> None:
        so_far = _partial(before + bytes([byte]))
        if so_far is not None and self._judge.refutes(so_far):
            self._wrong("under", before, byte, "allowed, but no instance continues like this")
            return
        start = matcher.num_taken
        if not matcher.accept(byte):
            self._wrong("under", before, byte, "allowed, but the matcher refuses it")
            return
        ended = self._end(matcher)
        end = matcher.taken_since(start)
        matcher.rollback(len(end))
        if ended:
            self._check_text((before + end).decode(), before, byte)
        elif ended is None:
            self._undecided()
        else:
            self._wrong("under", before, byte, f"allowed, but it leads to a dead end, {end!r}")

    def _end(self, matcher: _Counted) -> bool | None:
        """Whether the grammar reaches an end, mostly by the shortest way; None if not within
        _MOST_STEPS."""
        row = np.zeros(BYTES.num_words, np.int32)
        for _ in range(_MOST_STEPS):
            matcher.fill(row)
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: EOS + 1]
            if bits[EOS]:
                return True
            ranks = _RANKS * bits[:EOS]
            byte = int(ranks.argmax())
            if self._rng.random() < _AT_RANDOM or not ranks[byte]:
                allowed = np.flatnonzero(bits[:EOS])
                if not len(allowed):
                    return False
                byte = int(self._rng.choice(allowed))
            if not matcher.accept(byte):
                return False
        return None

    def _check_text(self, text: str, before: bytes, byte: int) -> None:
        try:
            wrong = self._judge.violation(text)
        except LookupError:
            self._undecided()
            return
        if wrong is not None:
            self._wrong("under", before, byte, f"allowed, but it leads to {text!r}: {wrong}")

    def _check_zero(self, known: Known, before: bytes, byte: int) -> None:
        if byte == _DELETE:
            self.tally.counts["bits_never_written"] += 1
            return
        after = _with_whole_character(before + bytes([byte]))
        so_far, exact = _partial(after, json.loads), _partial(after)
        if so_far is None or exact is None:
            self._undecided()
        elif so_far.repeats or self._judge.refutes(exact):
            self.tally.counts["bits_refuted"] += 1
        elif known.style is None or not self._is_missed(known, so_far, before, byte):
            self._undecided()

    def _is_missed(self, known: Known, so_far: Partial, before: bytes, byte: int) -> bool:
        """Whether an instance continues with a byte that the mask lacks; counted as an error if the
        grammar accepts it in no order of its keys."""
        assert known.style is not None
        start = before + bytes([byte])
        values = islice(completed(so_far, known.instance, self._known_values), _MOST_COMPLETED)
        for value in values:
            text = spelled(value, known.style)
            if not is_written(value) or not text.encode().startswith(start):
                continue
            try:
                wrong = self._judge.violation(text)
            except LookupError:
                continue
            if wrong is None and self._judge.is_sure:
                self._missed(text, before, byte)
                return True
        return False

    def _missed(self, text: str, before: bytes, byte: int) -> None:
        value = json.loads(text)
        if takes_any(self._grammar, value, self._schema) or takes_in_some_order(
            self._grammar, value, self._schema
        ):
            self.tally.counts["bits_of_other_orders"] += 1
        else:
            self._wrong("over", before, byte, f"forbidden, but {text!r} is an instance")

    def _undecided(self) -> None:
        self.tally.counts["bits_undecided"] += 1

    def _wrong(self, kind: str, before: bytes, byte: int, words: str) -> None:
        what = "the end" if byte == EOS else repr(bytes([byte]))[1:]
        self.tally.fault(kind, f"{what} after {before[-80:].decode(errors='replace')!r}: {words}")


def _partial(data: bytes, number: Callable[[str], Any] = exactly) -> Partial | None:
    """What a beginning says so far; a cut character says nothing. None if it is nested too
    deeply."""
    try:
        return partial(data.decode(errors="ignore"), number)
    except RecursionError:
        return None


def _with_whole_character(data: bytes) -> bytes:
    """A beginning that ends inside a character, completed to some character that begins so."""
    for more in (b"", b"\x80", b"\xa0", b"\x80\x80", b"\xa0\x80", b"\x90\x80\x80", b"\x80\x80\x80"):
        try:
            (data + more).decode()
        except UnicodeDecodeError:
            continue
        return data + more
    return data


class _Counted:
    """A matcher that remembers the bytes it accepted."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._taken = bytearray()

    @property
    def num_taken(self) -> int:
        """Number of accepted bytes, without the end."""
        return len(self._taken)

    def taken_since(self, start: int) -> bytes:
        """The accepted bytes from number `start` on."""
        return bytes(self._taken[start:])

    def accept(self, token: int) -> bool:
        taken = self._matcher.accept(token)
        if taken and token != EOS:
            self._taken.append(token)
        return taken

    def fill(self, row: Any) -> None:
        self._matcher.fill(row)

    def rollback(self, n: int) -> None:
        self._matcher.rollback(n)
        del self._taken[len(self._taken) - n :]
