"""Owns how calls on a GPU are timed, and the bandwidth with which they are compared."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

CACHE_BYTES = 256 << 20
"""Inputs of so many bytes overflow the cache of any GPU."""
MOST_SETS = 24
"""Most sets of inputs that are made to overflow it."""
DEVICE = torch.device("cuda")
ON_A_CPU = "; --tiny tries it on a CPU"
Call = Callable[[], Any]
Make = Callable[[], tuple[Call, int]]
"""Gives a call on inputs of its own, and the bytes that it must move."""


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
    """Seconds a call, in a graph of many over as many sets of inputs as overflow the cache; and its
    bytes."""
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
    return sorted(seconds_each(graph.replay, 8)[2:])[3] / num_calls, num_bytes


def seconds_each(call: Call, num_times: int) -> list[float]:
    """Seconds of GPU time of each of so many calls, of which the next begins when one has ended."""
    times = []
    for _ in range(num_times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return times


def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a copy of 2 GiB."""
    source, sink = (
        torch.empty(1 << 30, dtype=torch.bfloat16, device=DEVICE).normal_() for _ in range(2)
    )

    def copy(num_times: int) -> None:
        for _ in range(num_times):
            sink.copy_(source)

    copy(2)
    (seconds,) = seconds_each(partial(copy, 5), 1)
    return 5 * 2 * source.nbytes / seconds


def mark_of(stream: torch.cuda.Stream | None) -> Any:
    """A mark at the end of what the stream has now; without a stream the time."""
    if stream is None:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream)
    return event


def ms_between(start: Any, end: Any) -> float:
    """Milliseconds between two marks of one stream, which the stream has passed."""
    return 1e3 * (end - start) if isinstance(start, float) else start.elapsed_time(end)
