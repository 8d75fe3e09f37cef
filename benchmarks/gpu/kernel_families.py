"""Owns how the GPU's time of iterations is split by families of kernels, from torch's profiler."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

OTHER = "other"
_FAMILIES = (
    ("decode attention", ("combine_kernel",)),
    ("linear attention", ("_heads_kernel", "_nodes_kernel", "_tiles_kernel", "_scan_kernel")),
    ("norms", ("norm", "_gate_kernel")),
    ("activation", ("silu", "gated_mul", "activation")),
    ("rotation, keys stored", ("rope",)),
    ("sampling", ("sample", "argmax", "noise", "top_k", "accept", "draft")),
    ("products", ("gemm", "nvjet", "cutlass", "_linear", "cublas", "splitk")),
    ("copies", ("memcpy", "memset", "copy", "CatArray")),
    ("indices", ("index", "gather", "scatter", "arange", "elementwise", "searchsorted", "reduce")),
)
"""In the order in which they are asked."""
_ATTENTION = "attention_kernel"


def family_of(name: str, grid: Sequence[int], num_slots: int) -> str:
    """The family of a kernel by its name; attention belongs to decoding where it has one program
    for each of `num_slots` slots. grid: of the launch"""
    if _ATTENTION in name:
        return "decode attention" if list(grid)[1:2] == [num_slots] else "prompt attention"
    lower = name.lower()
    families = (
        family for family, parts in _FAMILIES if any(part.lower() in lower for part in parts)
    )
    return next(families, OTHER)


def shares(kernels: Sequence[Mapping[str, Any]], num_slots: int) -> dict[str, float]:
    """Microseconds of each family, and those in which nothing ran ("idle"). Of kernels that run at
    once, the one that began first has the time: the others may wait for it.

    kernels: events of a Chrome trace
    """
    spent: Counter[str] = Counter()
    last_us = min(each["ts"] for each in kernels)
    for each in sorted(kernels, key=lambda each: each["ts"]):
        begin_us = each["ts"]
        end_us = each["ts"] + each["dur"]
        grid = each.get("args", {}).get("grid", ())
        spent["idle"] += max(0.0, begin_us - last_us)
        own_us = max(0.0, end_us - max(begin_us, last_us))
        spent[family_of(each["name"], grid, num_slots)] += own_us
        last_us = max(last_us, end_us)
    return dict(spent)


def profiled(run: Callable[[], object]) -> list[dict[str, Any]]:
    """The kernels and copies that ran meanwhile, as events of a Chrome trace; microseconds."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kinds = "kernel", "gpu_memcpy", "gpu_memset"
    return [event for event in events if event.get("cat") in kinds and "dur" in event]


def longest(kernels: Sequence[Mapping[str, Any]], num: int) -> list[tuple[str, float, int]]:
    """Names, microseconds in all and launches of those that took longest."""
    spent: Counter[str] = Counter()
    counts = Counter(each["name"] for each in kernels)
    for each in kernels:
        spent[each["name"]] += each["dur"]
    return [(name, us, counts[name]) for name, us in spent.most_common(num)]
