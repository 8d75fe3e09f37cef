"""Owns libraries that some words in a guide make slow, greedy or dead, for fork servers that import
it first."""

from __future__ import annotations

import ctypes
import os
import time

from specguide.guide import Guide
from specguide.guided.backend import Written
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compiling.libraries import Libraries

SERVE = (
    "import sys; sys.path[:] = {path!r}; import slow_libraries; "
    "from specguide.guided.compiling.fork_server import main; main()"
)
SLOW_S = 60.0
_compile = Libraries.compile


def _compile_slowly(self: Libraries, guide: Guide | Written, backend: str) -> CompiledGrammar:
    source = guide.text if isinstance(guide, Written) else guide.source()
    if "slow!" in source:
        time.sleep(SLOW_S)
    if "large!" in source:
        bytearray(1 << 32)
    if "abort!" in source:
        os.abort()
    if "crash!" in source:
        ctypes.string_at(0)
    return _compile(self, guide, backend)


Libraries.compile = _compile_slowly  # type: ignore[method-assign]
