"""Owns what disturbs an engine: other CUDA work, and grammars that are slow at times."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import torch

from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import Matcher, Row


@contextmanager
def launching(enabled: bool) -> Iterator[None]:
    """A thread with small products and allocations on a CUDA stream of its own. Raises what it
    raised."""
    stop = threading.Event()
    errors = []

    def launch() -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                matrix = torch.randn(256, 256, device="cuda")
                for turn in count():
                    if stop.is_set():
                        return
                    for size in (1 << 10, 1 << 16, (turn % 64 + 1) << 12):
                        torch.empty(size, device="cuda").fill_(turn)
                    matrix = (matrix @ matrix).clamp(-1, 1)
                    stream.synchronize()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=launch, name="launcher", daemon=True)
    if enabled:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if enabled:
            thread.join()
    if errors:
        raise errors[0]


class StallingGrammar:
    """A compiled grammar whose matchers go through Python, and sleep in every n-th fill.

    sleep_s: 0: they never sleep
    every:   n
    """

    def __init__(self, grammar: CompiledGrammar, sleep_s: float, every: int) -> None:
        self._grammar, self._sleep_s, self._every = grammar, sleep_s, every

    def matcher(self) -> Matcher:
        """At the grammar's beginning."""
        return StallingMatcher(self._grammar.matcher(), self._sleep_s, self._every)


class StallingMatcher:
    """Follows the matcher contract by another matcher, as StallingGrammar says."""

    def __init__(self, matcher: Matcher, sleep_s: float, every: int) -> None:
        self._matcher, self._sleep_s, self._every = matcher, sleep_s, every
        self._num_fills = 0

    def accept(self, token: int) -> bool:
        return self._matcher.accept(token)

    def fill(self, row: Row) -> None:
        self._num_fills += 1
        if self._sleep_s and self._num_fills % self._every == 0:
            time.sleep(self._sleep_s)  # without the GIL
        self._matcher.fill(row)

    def rollback(self, n: int) -> None:
        self._matcher.rollback(n)

    @property
    def is_terminated(self) -> bool:
        return self._matcher.is_terminated

    def forced_tokens(self) -> Any:
        return self._matcher.forced_tokens()
