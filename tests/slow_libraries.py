"""Owns libraries that some choices make slow, greedy or dead, for fork servers that import it before they serve."""

from __future__ import annotations

import ctypes
import json
import os
import time

from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compiling.libraries import Libraries

SERVE = ("import sys; sys.path[:] = {path!r}; import slow_libraries; "
         "from specguide.guided.compiling.fork_server import main; main()")
SLOW_S = 60.0
_compile = Libraries.compile


def _compile_slowly(self: Libraries, rewritten: Guide, backend: str) -> CompiledGrammar:
    word = json.loads(rewritten.source())[0] if rewritten.kind == "choice" else ""
    if word.startswith("slow"):
        time.sleep(SLOW_S)
    if word.startswith("large"):
        bytearray(1 << 32)
    if word.startswith("abort"):
        os.abort()
    if word.startswith("crash"):
        ctypes.string_at(0)
    return _compile(self, rewritten, backend)


Libraries.compile = _compile_slowly  # type: ignore[method-assign]
