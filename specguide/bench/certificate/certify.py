"""Owns the certificate of one schema: which backend enforces it, and what random walks through its
grammar found."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specguide.bench.certificate.judge import Judge
from specguide.bench.certificate.masks import Known, MaskChecks, Tally
from specguide.bench.certificate.variants import STYLES, changed, is_written, listed, spelled
from specguide.bench.config import CertifyConfig
from specguide.bench.instances import (
    DEAD_END,
    draw,
    in_some_order,
    takes,
    takes_any,
    takes_in_some_order,
)
from specguide.guided.backends import CompiledGrammar

_WALKED_STYLES = ("compact", "spaced", "indented")


@dataclass
class Certificate:
    """What was found about a schema's grammar.

    backend:   the backend that enforces it
    counts:    masks, bits and texts by result; see docs/certificates.md
    spellings: for each style of `json.dumps`, instances tried and accepted: as they are, and with
               their keys in another order
    faults:    the first proven errors, as text
    is_cut:    time ran out before everything was tried
    seconds:   processor time, without the compile
    """

    backend: str
    counts: dict[str, int]
    spellings: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    is_cut: bool = False
    seconds: float = 0.0

    @property
    def num_errors(self) -> int:
        """Number of proven errors in masks and texts."""
        return sum(self.counts.get(name, 0) for name in ERRORS)


ERRORS = ("over", "under", "texts_over", "texts_under")
"""The counts of proven errors: first those of masks' bits, then those of whole texts."""


def certify(
    grammar: CompiledGrammar, schema: Any, instances: Sequence[Any], config: CertifyConfig
) -> Certificate:
    """Walk through a grammar over `instances.BYTES` and check what it allows.

    schema:    as the user wrote it
    instances: known instances; those that the validator refuses are left out
    """
    return _Run(grammar, schema, config).over(instances)


class _Run:
    """The certification of one schema."""

    def __init__(self, grammar: CompiledGrammar, schema: Any, config: CertifyConfig) -> None:
        self._grammar, self._schema, self._config = grammar, schema, config
        self._rng = random.Random(f"{config.seed} {json.dumps(schema)[:10_000]}")
        self._judge = Judge(schema)
        self._listed = listed(schema)
        self._checks = MaskChecks(
            grammar, schema, self._judge, self._listed, config.bits, self._rng
        )
        self._spellings = {style: {"tried": 0, "taken": 0, "reordered": 0} for style in STYLES}
        self._start = time.thread_time()

    @property
    def _tally(self) -> Tally:
        return self._checks.tally

    @property
    def _is_over(self) -> bool:
        return time.thread_time() - self._start > self._config.seconds

    def over(self, instances: Sequence[Any]) -> Certificate:
        """First the known instances, then texts drawn from the grammar, then changes of both."""
        walks = [walk for one in instances[: self._config.walks] for walk in self._instance(one)]
        for _ in range(self._config.walks):
            if not self._is_over:
                walks += self._drawn()
        self._changed([walk.instance for walk in walks if walk.style is not None])
        share = max(self._config.masks // max(len(walks), 1), 1)
        for walk in walks:
            if not self._is_over:
                self._along(walk, share)
        return Certificate(
            self._grammar.backend,
            dict(self._tally.counts),
            self._spellings,
            self._tally.faults,
            self._is_over,
            time.thread_time() - self._start,
        )

    def _along(self, walk: Known, most: int) -> None:
        try:
            self._checks.along(walk, most)
        except RuntimeError:  # the library reached one of its limits
            self._tally.counts["walks_given_up"] += 1

    def _instance(self, instance: Any) -> list[Known]:
        """Spell a known instance in every style; returns the texts to walk along."""
        if not is_written(instance):
            self._tally.counts["texts_never_written"] += 1
            return []
        if not self._is_valid(spelled(instance, "spaced")):
            return []
        is_sure = self._judge.is_sure
        taken = {style: self._spell(instance, style) for style in STYLES}
        self._tally.counts["instances"] += 1
        style = self._rng.choice(_WALKED_STYLES)
        text = taken[style]
        if text is None:
            self._refused(instance, is_sure)
            return []
        return [Known(text, json.loads(text), style)]

    def _spell(self, instance: Any, style: str) -> str | None:
        """The text of an instance in a style, with keys in the order that the grammar accepts; it
        is counted."""
        counts = self._spellings[style]
        counts["tried"] += 1
        text = spelled(instance, style)
        if takes(self._grammar, text):
            counts["taken"] += 1
            return text
        ordered = in_some_order(self._grammar, json.loads(text), self._schema)
        if ordered is None:
            return None
        text = spelled(json.loads(ordered), style)
        if not takes(self._grammar, text):
            return None
        counts["reordered"] += 1
        return text

    def _refused(self, instance: Any, is_sure: bool) -> None:
        """An instance that the grammar accepts in no order of keys; an error if it certainly is an
        instance."""
        if is_sure:
            self._tally.fault("texts_over", f"{spelled(instance, 'compact')[:300]} is an instance")
        else:
            self._tally.counts["texts_undecided"] += 1

    def _drawn(self) -> list[Known]:
        """A random text of the grammar, and the same in a canonical spelling if the grammar accepts
        it."""
        try:
            text = draw(self._grammar.matcher(), self._rng)
        except RuntimeError as error:
            words = str(error)[:300]
            if words.startswith(DEAD_END):
                self._tally.fault("texts_under", words)
            else:
                self._tally.counts["walks_given_up"] += 1
            return []
        if text is None:
            self._tally.counts["texts_cut"] += 1
            return []
        try:
            wrong = self._judge.violation(text)
        except LookupError:
            self._tally.counts["texts_undecided"] += 1
            return []
        self._tally.counts["texts"] += 1
        if wrong is not None:
            self._tally.fault("texts_under", f"{text[:300]!r}: {wrong}")
            return []
        walks = [Known(text, json.loads(text))]
        style = self._rng.choice(_WALKED_STYLES)
        again = spelled(walks[0].instance, style)
        if takes(self._grammar, again):
            walks.append(Known(again, walks[0].instance, style))
        return walks

    def _changed(self, instances: Sequence[Any]) -> None:
        """Random changes of instances: each result is an instance or not, and the grammar must
        agree."""
        for number in range(self._config.changes if instances else 0):
            if self._is_over:
                return
            value = changed(instances[number % len(instances)], self._listed, self._rng)
            if not is_written(value):
                continue
            text = spelled(value, "compact")
            try:
                wrong = self._judge.violation(text)
            except LookupError:
                self._tally.counts["texts_undecided"] += 1
                continue
            value = json.loads(text)
            self._tally.counts["texts"] += 1
            is_sure = self._judge.is_sure
            is_taken = takes_any(self._grammar, value, self._schema)
            if wrong is not None and is_taken:
                self._tally.fault("texts_under", f"{text[:300]!r}: {wrong}")
            elif wrong is None and not (is_taken or self._in_some_order(value)):
                self._refused(value, is_sure)

    def _in_some_order(self, value: Any) -> bool:
        return takes_in_some_order(self._grammar, value, self._schema)

    def _is_valid(self, text: str) -> bool:
        try:
            return self._judge.violation(text) is None
        except LookupError:
            return False
