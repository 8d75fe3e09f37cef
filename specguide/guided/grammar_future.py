"""Owns the future of a compiled grammar, with the time that its compile took."""

from __future__ import annotations

import time
from concurrent.futures import Future

from specguide.guided.backends import CompiledGrammar


class GrammarFuture(Future[CompiledGrammar]):
    """A future grammar, or the error that says why there is none.

    room:   most tokens of an output. The future is settled only when it is known whether the
            shortest output has more. None: it does not wait for that
    took_s: seconds between the request and the result, measured by the compiling thread, so that a
            busy caller adds nothing; 0 until then
    """

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.room = room
        self._asked_s = time.perf_counter()
        self.took_s = 0.0

    def set_result(self, result: CompiledGrammar) -> None:
        """Settle the future with a compiled grammar."""
        self.took_s = time.perf_counter() - self._asked_s
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Settle the future with an error."""
        self.took_s = time.perf_counter() - self._asked_s
        super().set_exception(exception)
