"""Owns the cache of compiled grammars: it drops the least recently used ones when their bytes
exceed the budget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from specguide.errors import InvalidGuide
from specguide.guided.backends import CompiledGrammar

_ERROR_BYTES = 2048

Fact = CompiledGrammar | InvalidGuide
"""The outcome of a compile where it is a fact about the guide."""


class GrammarCache:
    """Outcomes of compiles by key. Safe to use from several threads.

    max_bytes: budget for all of them, bytes
    num_bytes: their sizes in bytes, each as of its last use: a grammar grows while it is used
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._outcomes: OrderedDict[Hashable, Fact] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._outcomes)

    def get(self, key: Hashable) -> Fact | None:
        """The outcome under `key`, which is then the most recently used one."""
        with self._lock:
            outcome = self._outcomes.get(key)
            if outcome is not None:
                self._outcomes.move_to_end(key)
                self._count(key, _size(outcome))
            return outcome

    def put(self, key: Hashable, outcome: Fact) -> None:
        """Keep an outcome, unless it is larger than the whole budget. An error is kept without its
        stack frames."""
        if isinstance(outcome, InvalidGuide):
            outcome.__traceback__ = outcome.__cause__ = outcome.__context__ = None
        with self._lock:
            if self._outcomes.pop(key, None) is not None:
                self._count(key, 0)
            size = _size(outcome)
            if size > self.max_bytes:
                return
            self._outcomes[key] = outcome
            self._count(key, size)
            while self.num_bytes > self.max_bytes:
                oldest, _ = self._outcomes.popitem(last=False)
                self._count(oldest, 0)

    def _count(self, key: Hashable, num_bytes: int) -> None:
        """Set the size of an outcome in the count; 0: it was dropped."""
        self.num_bytes += num_bytes - self._sizes.pop(key, 0)
        if num_bytes:
            self._sizes[key] = num_bytes


def _size(outcome: Fact) -> int:
    if isinstance(outcome, InvalidGuide):
        return _ERROR_BYTES
    return outcome.num_bytes + outcome.used_bytes
