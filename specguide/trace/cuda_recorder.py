"""Owns the marks of an iteration on a GPU: timing events, also inside captured graphs, with times
converted to the host's clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch

from specguide.trace.recorder import HostRecorder, Marks
from specguide.trace.spans import FORWARD, Span

_SHORT_TRIP_NS = 50_000
_MOST_TRIPS = 200


@dataclass(eq=False)
class _Iteration:
    """An iteration that may still run. marks: pairs of name and event"""

    start: torch.cuda.Event
    args: dict[str, int | str]
    marks: list[Any] = field(default_factory=list)


class CudaRecorder(HostRecorder):
    """Records an event at each mark. Inside a capture the event becomes a node of the graph, and is
    recorded at each replay.

    Each iteration that may be under way has a place with its own events and graphs. An iteration's
    times are read when a later iteration takes its place. It is over by then, so tracing never
    waits. Tracing costs about a microsecond per event node, and one capture for each place.

    CUDA gives the time between two events as a 32-bit float of milliseconds, which is precise only
    for short times. So marks are measured from the start of their iteration, and each start from
    the start before. A short round trip puts the first start on the host's clock.
    The two clocks drift apart by some microseconds a second.

    num_under_way: iterations that may be under way at once
    """

    def __init__(self, device: torch.device, num_under_way: int) -> None:
        super().__init__()
        self.num_under_way, self._device = num_under_way, device
        self._under_way: deque[_Iteration] = deque()
        self._marks: list[Any] = []
        with torch.cuda.device(device):
            _, self._start_ns, self._start = _shortest_round_trip()

    def begin_iteration(self, phase: str) -> None:
        super().begin_iteration(phase)
        iteration = _Iteration(torch.cuda.Event(enable_timing=True), self._args)
        iteration.start.record()
        self._under_way.append(iteration)
        self._marks = iteration.marks
        self.iteration_place = self._num_iterations % self.num_under_way
        if len(self._under_way) > self.num_under_way:
            oldest = self._under_way.popleft()
            self._under_way[0].start.synchronize()
            self._read(oldest)

    def forward(self, name: str) -> None:
        event = torch.cuda.Event(enable_timing=True, external=True)
        event.record()
        self._marks.append((name, event))

    @contextmanager
    def capture(self) -> Iterator[Marks]:
        outside, self._marks = self._marks, []
        try:
            yield self._marks
        finally:
            self._marks = outside

    def replayed(self, marks: Marks) -> None:
        self._marks.extend(marks)

    def spans(self) -> list[Span]:
        """See Recorder.spans. Waits for all iterations under way."""
        torch.cuda.synchronize(self._device)
        while self._under_way:
            self._read(self._under_way.popleft())
        return super().spans()

    def _read(self, iteration: _Iteration) -> None:
        self._start_ns += _nanoseconds(self._start, iteration.start)
        self._start = iteration.start
        begin_ns = self._start_ns
        for name, event in iteration.marks:
            end_ns = self._start_ns + _nanoseconds(iteration.start, event)
            self._add(FORWARD, name, begin_ns, end_ns, iteration.args)
            begin_ns = end_ns


def _nanoseconds(begin: torch.cuda.Event, end: torch.cuda.Event) -> int:
    return round(begin.elapsed_time(end) * 1e6)


def _shortest_round_trip() -> tuple[int, int, torch.cuda.Event]:
    """The first one that is short, or the shortest of many where others keep the GPU busy."""
    shortest = min((_round_trip() for _ in range(8)), key=itemgetter(0))
    for _ in range(_MOST_TRIPS):
        if shortest[0] <= _SHORT_TRIP_NS:
            break
        shortest = min(shortest, _round_trip(), key=itemgetter(0))
    return shortest


def _round_trip() -> tuple[int, int, torch.cuda.Event]:
    """How long the host took to record an event and wait for it (ns), the middle of that time on
    the host's clock (ns), and the event."""
    event = torch.cuda.Event(enable_timing=True)
    begin_ns = time.perf_counter_ns()
    event.record()
    event.synchronize()
    end_ns = time.perf_counter_ns()
    return end_ns - begin_ns, (begin_ns + end_ns) // 2, event
