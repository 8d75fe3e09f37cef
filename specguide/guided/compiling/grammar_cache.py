"""Owns the cache of compiled grammars: the least recently used go when their bytes exceed the
budget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from specguide.errors import InvalidGuide
from specguide.guided.backends import CompiledGrammar

_ERROR_BYTES = 2048

Fact = CompiledGrammar | InvalidGuide
"""What a compile came to, where that is a fact about the guide."""


class GrammarCache:
    """Outcomes of compiles by key. Safe to use from several threads. `max_bytes`: budget for all of
    them, bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._outcomes: OrderedDict[Hashable, Fact] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes of all outcomes, by what they take now: a grammar grows where it is used."""
        with self._lock:
            return sum(map(_size, self._outcomes.values()))

    def __len__(self) -> int:
        return len(self._outcomes)

    def get(self, key: Hashable) -> Fact | None:
        """The outcome under `key`, which is then the most recently used one."""
        with self._lock:
            outcome = self._outcomes.get(key)
            if outcome is not None:
                self._outcomes.move_to_end(key)
            return outcome

    def put(self, key: Hashable, outcome: Fact) -> None:
        """Keep an outcome, unless it is larger than the whole budget. An error is kept without its
        stack frames."""
        if isinstance(outcome, InvalidGuide):
            outcome.__traceback__ = outcome.__cause__ = outcome.__context__ = None
        with self._lock:
            self._outcomes.pop(key, None)
            if _size(outcome) > self.max_bytes:
                return
            self._outcomes[key] = outcome
            sizes = list(map(_size, self._outcomes.values()))
            num_over = sum(sizes) - self.max_bytes
            for size in sizes:
                if num_over <= 0:
                    break
                self._outcomes.popitem(last=False)
                num_over -= size


def _size(outcome: Fact) -> int:
    if isinstance(outcome, InvalidGuide):
        return _ERROR_BYTES
    return outcome.num_bytes + outcome.used_bytes
