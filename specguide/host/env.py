"""Owns every environment variable that specguide reads."""

from __future__ import annotations

import os
from pathlib import Path

from specguide.host import machine

_HUGE_PAGES = "glibc.malloc.hugetlb"


def data_dir() -> Path | None:
    """Folder with the JSON Lines data sets that benchmarks and some tests read (`SPECGUIDE_DATA`),
    or None."""
    value = os.environ.get("SPECGUIDE_DATA")
    return Path(value) if value else None


def num_forward_threads() -> int:
    """Threads of a forward pass on a CPU: `OMP_NUM_THREADS`, else half the cores.

    A thread for every core would leave none to the grammar, and one late thread stalls each
    product.
    """
    value = os.environ.get("OMP_NUM_THREADS")
    return int(value) if value and value.isdecimal() else max(1, machine.num_cores() // 2)


def num_grammar_threads() -> int:
    """Worker threads of the grammar executor (`SPECGUIDE_GRAMMAR_THREADS`); default: cores less
    two, 1 to 14."""
    value = os.environ.get("SPECGUIDE_GRAMMAR_THREADS")
    return int(value) if value else max(1, min(14, machine.num_cores() - 2))


def num_compile_threads() -> int:
    """Threads that compile kernels for a GPU before there are requests: the cores, at most 16."""
    return min(16, machine.num_cores())


def native_grammars_enabled() -> bool:
    """False when `SPECGUIDE_PYTHON_MATCHERS=1` asks for the Python adapters instead of the native
    ones."""
    return os.environ.get("SPECGUIDE_PYTHON_MATCHERS", "") not in ("1", "true")


def ranks_key() -> str | None:
    """What hosts whose ranks run one model together know of each other (`SPECGUIDE_RANKS_KEY`), or
    None."""
    return os.environ.get("SPECGUIDE_RANKS_KEY")


def shares_memory() -> bool:
    """False when `SPECGUIDE_SHARED_MEMORY=0` asks ranks on GPUs to sum by NCCL, and not in memory
    that they share."""
    return os.environ.get("SPECGUIDE_SHARED_MEMORY", "") not in ("0", "false")


def prefer_huge_pages() -> None:
    """Let the heaps of processes that are started from here on be in huge pages, where the system
    has these (`GLIBC_TUNABLES`, which may say otherwise). Code that a request runs once finds its
    data with fewer misses then."""
    told = os.environ.get("GLIBC_TUNABLES", "")
    if _HUGE_PAGES not in told:
        os.environ["GLIBC_TUNABLES"] = f"{told}:{_HUGE_PAGES}=1".lstrip(":")
