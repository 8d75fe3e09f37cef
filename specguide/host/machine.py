"""Owns how many processor cores and how much memory this process may use.

A container sees all cores and all memory of its machine. Its control groups limit how much of them
it may use: https://docs.kernel.org/admin-guide/cgroup-v2.html, and the files of version 1 in
https://docs.kernel.org/admin-guide/cgroup-v1/.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_PROCESS = Path("/proc/self/cgroup")
_MEMORY = Path("/proc/meminfo")


def num_cores() -> int:
    """Cores that this process may keep busy, at least 1: the cores that it may run on, or fewer
    where its processor time is limited."""
    affinity = getattr(os, "sched_getaffinity", None)  # only Linux has it
    allowed = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min([allowed, *_quotas()]))


def free_memory() -> int:
    """Bytes of memory that this process can still take, the page cache included."""
    return max(0, min([_free_on_machine(), *_free_in_groups()]))


def _free_on_machine() -> int:
    if _MEMORY.is_file():
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _quotas() -> Iterator[int]:
    """For each control group of this process that limits it: cores that the group may keep busy."""
    for group in _groups("cpu"):
        words = _words(group / "cpu.max") or [
            *_words(group / "cpu.cfs_quota_us"),
            *_words(group / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and words[0].isdecimal():
            yield math.ceil(int(words[0]) / int(words[1]))


def _free_in_groups() -> Iterator[int]:
    """For each control group of this process that limits it: bytes that the group can still take.
    Cached file pages count as free, as in the machine's own figure."""
    for group in _groups("memory"):
        limit = _words(group / "memory.max") or _words(group / "memory.limit_in_bytes")
        used = _words(group / "memory.current") or _words(group / "memory.usage_in_bytes")
        if limit and used and limit[0].isdecimal():
            figures = _words(group / "memory.stat")
            cached = dict(zip(figures[::2], figures[1::2], strict=True)).get("inactive_file", "0")
            yield int(limit[0]) - int(used[0]) + int(cached)


def _groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups that limit this process, the innermost first. In a container
    that sees only its own folder, that folder is the root, whatever the group's name outside."""
    for line in _PROCESS.read_text().splitlines() if _PROCESS.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            root = _CONTROL_GROUPS / controller if controllers else _CONTROL_GROUPS
            inner = root / path.lstrip("/")
            yield from (it for it in (inner, *inner.parents) if it.is_relative_to(root))


def _words(file: Path) -> list[str]:
    """The words of a file; an empty list where there is no such file."""
    try:
        return file.read_text().split()
    except OSError:
        return []
