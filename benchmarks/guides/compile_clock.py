"""What a compile costs: till its caller is told, and till all is there that comes behind that."""

from __future__ import annotations

import time

from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling.libraries import finish


class CompileClock:
    """Compiles a guide as a request does, with so much room that nothing needs to be waited for.

    told_ms: processor time of all threads till the grammar was there, beside which nothing else was
             at work; a request waits for that, and then for its first row
    """

    def __init__(
        self, compiler: GrammarCompiler, guide: Guide, start_s: float | None = None
    ) -> None:
        """start_s: of the processor's clock, where the guide was made behind it"""
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
        """Processor time till all is there, whatever this thread did meanwhile included."""
        finish(self.grammar)
        return 1e3 * (time.process_time() - self._start_s)
