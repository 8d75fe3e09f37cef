"""Owns how calls on a GPU are timed, and the bandwidth that they are held against."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

CACHE_BYTES = 256 << 20
MOST_SETS = 24
DEVICE = torch.device("cuda")
ON_A_CPU = "; --tiny tries it on a CPU"
Call = Callable[[], Any]
Make = Callable[[], tuple[Call, int]]


def require_gpus(number: int = 1, *, instead: str = "") -> None:
    """Exits, in one line, where fewer are found. instead: what to do without them"""
    found = torch.cuda.device_count()
    if found < number:
        sys.exit(f"this benchmark needs {number} CUDA device(s) and finds {found}{instead}")


def _own_stream() -> torch.cuda.Stream | None:
    """The one that work goes to, unless it is the default one, of which there are no graphs."""
    current = torch.cuda.current_stream()
    return None if current == torch.cuda.default_stream() else current


def measure(make: Make) -> tuple[float, int]:
    """Seconds a call and its bytes."""
    torch.manual_seed(0)
    call, num_bytes = make()
    calls = [
        call,
        *(make()[0] for _ in range(min(MOST_SETS, max(1, CACHE_BYTES // num_bytes)) - 1)),
    ]
    if len(calls) == 1 and num_bytes < 1 << 30:
        calls.append(make()[0])
    for one in calls[:2]:
        one()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=_own_stream()):
        for _ in range(max(1, 16 // len(calls))):
            for one in calls:
                one()
    num_calls = len(calls) * max(1, 16 // len(calls))
    times = []
    for _ in range(8):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / num_calls)
    return sorted(times[2:])[3], num_bytes


def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a copy of 2 GiB."""
    source, sink = (
        torch.empty(1 << 30, dtype=torch.bfloat16, device=DEVICE).normal_() for _ in range(2)
    )
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        sink.copy_(source)
    start.record()
    for _ in range(5):
        sink.copy_(source)
    end.record()
    end.synchronize()
    return 5 * 2 * source.nbytes / (start.elapsed_time(end) / 1e3)
