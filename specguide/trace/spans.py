"""Owns Span: a stretch of time on one track of a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FORWARD, GRAMMAR, CALLBACKS, HOST = TRACKS = (
    "forward stream",
    "grammar stream",
    "callbacks",
    "host",
)


@dataclass(frozen=True)
class Span:
    """The time that an activity called `name` took on a track.

    track:            one of TRACKS; the spans of one track do not overlap
    begin_ns, end_ns: nanoseconds of time.perf_counter_ns
    args:             "iteration", from 1; on the forward stream also "phase": "prefill", "decode"
                      or "warm-up". Empty on the host, which may work for several iterations at once
    """

    track: str
    name: str
    begin_ns: int
    end_ns: int
    args: Mapping[str, int | str] = field(default_factory=dict)
