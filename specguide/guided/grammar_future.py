"""Owns what a caller of the compiler waits for, and how long that takes."""

from __future__ import annotations

import time
from concurrent.futures import Future

from specguide.guided.backends import CompiledGrammar


class GrammarFuture(Future[CompiledGrammar]):
    """A future grammar, or the error that says why there is none.

    room:   the most tokens that a text may have. Where it is not plain that the shortest text has
            no more, the grammar is there when that is known. None: that is no matter
    took_s: seconds from when it was asked for to when it was there, by the thread that compiled it;
            what the caller did meanwhile is not in it. 0 until then
    """

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.room = room
        self._asked_s = time.perf_counter()
        self.took_s = 0.0

    def set_result(self, result: CompiledGrammar) -> None:
        """Settle the future with a grammar that is there."""
        self.took_s = time.perf_counter() - self._asked_s
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Settle the future with an error: the grammar will never be there."""
        self.took_s = time.perf_counter() - self._asked_s
        super().set_exception(exception)
