"""Owns what is seen of memory: what is held, and whether it grows."""

from __future__ import annotations

import gc
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

MB = 1 << 20
MEMORY_TOLERANCE = {"allocated": 8 * MB, "reserved": 64 * MB, "device": 128 * MB, "rss": 32 * MB}
"""What may be added between half of a phase and its end, bytes. The launcher's tensors come and go
within the first; blocks that the allocator keeps, kernels that are compiled late, and what the
grammar libraries remember of their lexers, which is most of it before half of the phase is over,
within the others."""


@dataclass(frozen=True)
class Memory:
    """Bytes: of torch's allocator in use and kept, in use on the whole device, and resident in the
    process."""

    allocated: int
    reserved: int
    device: int
    rss: int

    @classmethod
    def now(cls) -> Memory:
        """0 of the GPU's where there is none."""
        gc.collect()
        rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if not torch.cuda.is_available():
            return cls(0, 0, 0, rss)
        free, total = torch.cuda.mem_get_info()
        return cls(torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), total - free, rss)


def memory_faults(first: Memory, last: Memory) -> list[str]:
    """What grew by more than MEMORY_TOLERANCE."""
    return [
        f"{name} memory grew by {(getattr(last, name) - getattr(first, name)) / MB:.1f} MB"
        for name, tolerance in MEMORY_TOLERANCE.items()
        if getattr(last, name) - getattr(first, name) > tolerance
    ]


def in_mb(memory: Memory) -> dict[str, float]:
    return {name: round(value / MB, 1) for name, value in asdict(memory).items()}
