"""Owns every environment variable that specguide reads."""

from __future__ import annotations

import os
from pathlib import Path

from specguide.errors import InvalidParams
from specguide.host import machine

_MOST_THREADS = 1024
_HUGE_PAGES = "glibc.malloc.hugetlb"


def data_dir() -> Path | None:
    """The folder of JSON Lines data sets that benchmarks and some tests read (`SPECGUIDE_DATA`), or
    None."""
    value = os.environ.get("SPECGUIDE_DATA")
    return Path(value) if value else None


def num_forward_threads() -> int:
    """Threads of a forward pass on a CPU: `OMP_NUM_THREADS` where that is a number from 1 on, else
    half the cores.

    One thread per core would leave no core for the grammar, and each matrix product waits for its
    slowest thread.
    """
    value = os.environ.get("OMP_NUM_THREADS")
    given = int(value) if value and value.isdecimal() else 0
    return given or max(1, machine.num_cores() // 2)


def num_grammar_threads() -> int:
    """Worker threads of the grammar executor (`SPECGUIDE_GRAMMAR_THREADS`); default: all cores but
    two, at least 1 and at most 14. Raises InvalidParams."""
    value = os.environ.get("SPECGUIDE_GRAMMAR_THREADS")
    if not value:
        return max(1, min(14, machine.num_cores() - 2))
    if not (value.isdecimal() and 1 <= int(value) <= _MOST_THREADS):
        raise InvalidParams(
            f"the variable SPECGUIDE_GRAMMAR_THREADS must be 1 to {_MOST_THREADS}, found {value!r}",
            param="num_threads",
        )
    return int(value)


def num_compile_threads() -> int:
    """Threads that compile GPU kernels at start: one per core, at most 16."""
    return min(16, machine.num_cores())


def native_grammars_enabled() -> bool:
    """False when `SPECGUIDE_PYTHON_MATCHERS=1` asks for the Python adapters instead of the native
    ones."""
    return os.environ.get("SPECGUIDE_PYTHON_MATCHERS", "") not in ("1", "true")


def ranks_key() -> str | None:
    """The secret that hosts share whose ranks run one model together (`SPECGUIDE_RANKS_KEY`), or
    None."""
    return os.environ.get("SPECGUIDE_RANKS_KEY")


def shares_memory() -> bool:
    """False when `SPECGUIDE_SHARED_MEMORY=0` asks ranks on GPUs to sum with NCCL instead of in
    shared memory."""
    return os.environ.get("SPECGUIDE_SHARED_MEMORY", "") not in ("0", "false")


def prefer_huge_pages() -> None:
    """Put the heaps of all processes that are started from now on into huge pages, where the system
    has them. `GLIBC_TUNABLES` may forbid it. Code that runs once per request then has fewer TLB
    misses."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if _HUGE_PAGES not in tunables:
        os.environ["GLIBC_TUNABLES"] = f"{tunables}:{_HUGE_PAGES}=1".lstrip(":")
