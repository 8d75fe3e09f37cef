"""Owns the time of a compile: until its caller has the grammar, and until the work that follows is
done."""

from __future__ import annotations

import time

from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling.libraries import finish


class CompileClock:
    """Compiles a guide as a request does, with so much room for the output that nothing else is
    waited for.

    told_ms: processor time of all threads until the grammar was ready; nothing else ran meanwhile.
             A request waits for that, and then for its first row
    """

    def __init__(
        self, compiler: GrammarCompiler, guide: Guide, start_s: float | None = None
    ) -> None:
        """start_s: processor time at which the guide's creation began; None: it is not counted"""
        self._start_s = time.process_time() if start_s is None else start_s
        self._told_s = 0.0
        future = compiler.submit(guide)
        # On the thread that settles the future, before it does anything else.
        future.add_done_callback(lambda _: self._tell())
        self.grammar: CompiledGrammar = future.result()
        while not self._told_s:  # callers are woken before callbacks are called
            time.sleep(0)
        self.told_ms = 1e3 * (self._told_s - self._start_s)

    def _tell(self) -> None:
        self._told_s = time.process_time()

    def whole_ms(self) -> float:
        """Processor time until all work is done, including what this thread did meanwhile."""
        finish(self.grammar)
        return 1e3 * (time.process_time() - self._start_s)
