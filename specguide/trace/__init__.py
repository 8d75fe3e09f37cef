"""Timelines: when each part of an iteration ran on the two streams, in the grammar callbacks and on
the host."""

from specguide.trace.chrome import read_chrome_trace, write_chrome_trace
from specguide.trace.recorder import HostRecorder, Marks, Recorder
from specguide.trace.spans import TRACKS, Span

__all__ = [
    "TRACKS",
    "HostRecorder",
    "Marks",
    "Recorder",
    "Span",
    "read_chrome_trace",
    "write_chrome_trace",
]
