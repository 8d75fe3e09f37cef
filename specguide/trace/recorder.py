"""Owns the recording of a timeline: marks on the streams, spans of the host, times of the grammar
callbacks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from specguide.trace.spans import CALLBACKS, FORWARD, GRAMMAR, HOST, TRACKS, Span

Marks = Sequence[Any]
_NOTHING: AbstractContextManager[Any] = nullcontext(())


class Recorder:
    """The contract of recorders, and the null object for an engine without tracing: it records
    nothing.

    A mark names what a stream has done since the mark before, or since the iteration began.

    max_spans:       how many spans of each track are kept, the last ones
    iteration_place: which of `num_under_way` sets of marks the iteration records; a captured graph
                     belongs to one
    num_under_way:   iterations that may be under way at once
    """

    max_spans = 0
    iteration_place = 0
    num_under_way = 1

    def begin_iteration(self, phase: str) -> None:
        """Begin the next iteration: all that follows belongs to it. Called on the forward stream.

        phase: "prefill", "decode" or "warm-up"
        """

    def forward(self, name: str) -> None:
        """Mark the forward stream, which is the current one."""

    def host(self, name: str) -> AbstractContextManager[object]:
        """A context; records how long the calling thread is inside."""
        return _NOTHING

    def capture(self) -> AbstractContextManager[Marks]:
        """A context for the capture of a graph; yields the marks that are made inside. They count
        only when the graph is replayed."""
        return _NOTHING

    def replayed(self, marks: Marks) -> None:
        """Take the marks of a graph that the iteration has replayed."""

    def add_callbacks(self, times: Iterable[tuple[int, int, int, int]]) -> None:
        """Add callbacks as (iteration, index, begin, end) in nanoseconds, oldest first."""

    def spans(self) -> list[Span]:
        """All recorded spans, track by track."""
        return []


class HostRecorder(Recorder):
    """Reads the host's clock at each mark. That is right on a CPU, where the calling thread is the
    forward stream.

    The grammar stream runs nothing but callbacks, so its track is made from their times.
    """

    max_spans = 1 << 16

    def __init__(self) -> None:
        self._spans: dict[str, deque[Span]] = {
            track: deque(maxlen=self.max_spans) for track in TRACKS
        }
        self._args: dict[str, int | str] = {"iteration": 0}
        self._num_iterations = 0
        self._mark_ns = self._callback_end_ns = 0

    def begin_iteration(self, phase: str) -> None:
        self._num_iterations += 1
        self._args = {"iteration": self._num_iterations, "phase": phase}
        self._mark_ns = time.perf_counter_ns()

    def forward(self, name: str) -> None:
        begin_ns, self._mark_ns = self._mark_ns, time.perf_counter_ns()
        self._add(FORWARD, name, begin_ns, self._mark_ns, self._args)

    @contextmanager
    def host(self, name: str) -> Iterator[None]:
        begin_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self._add(HOST, name, begin_ns, time.perf_counter_ns(), {})

    def add_callbacks(self, times: Iterable[tuple[int, int, int, int]]) -> None:
        for iteration, index, begin_ns, end_ns in times:
            name = f"callback {index}"
            args = {"iteration": iteration}
            self._add(CALLBACKS, name, begin_ns, end_ns, args)
            self._add_grammar(name, index, begin_ns, end_ns, args)

    def spans(self) -> list[Span]:
        return [span for track in TRACKS for span in self._spans[track]]

    def _add_grammar(
        self, name: str, index: int, begin_ns: int, end_ns: int, args: dict[str, int]
    ) -> None:
        if index > 0 and self._callback_end_ns:
            self._add(GRAMMAR, "wait tokens", self._callback_end_ns, begin_ns, args)
        self._add(GRAMMAR, name, begin_ns, end_ns, args)
        self._callback_end_ns = end_ns

    def _add(self, track: str, name: str, begin_ns: int, end_ns: int, args: Any) -> None:
        self._spans[track].append(Span(track, name, begin_ns, end_ns, args))
