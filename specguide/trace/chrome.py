"""Owns the file format of timelines: Chrome's Trace Event Format, which https://ui.perfetto.dev
opens.

Format: "Trace Event Format" by Google: complete events (ph "X", times in microseconds) and metadata
        (ph "M").
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams
from specguide.trace.spans import TRACKS, Span

_PID = 1


def write_chrome_trace(path: str | Path, spans: Iterable[Span]) -> None:
    """Write spans to a file. Each of the four tracks is a named thread; times count from the first
    span. Raises InvalidParams where the file cannot be written."""
    spans = sorted(spans, key=lambda span: span.begin_ns)
    origin_ns = spans[0].begin_ns if spans else 0
    events = _metadata() + [_complete_event(span, origin_ns) for span in spans]
    try:
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n")
    except OSError as error:
        raise InvalidParams(f"cannot write {path}: {error}", param="trace") from error


def read_chrome_trace(path: str | Path) -> list[Span]:
    """The spans of a file that `write_chrome_trace` wrote, in order of their begin. Times count
    from the first span."""
    events = json.loads(Path(path).read_text())["traceEvents"]
    tracks = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    return [
        Span(
            tracks[event["tid"]],
            event["name"],
            round(event["ts"] * 1e3),
            round((event["ts"] + event["dur"]) * 1e3),
            event["args"],
        )
        for event in events
        if event["ph"] == "X"
    ]


def _metadata() -> list[dict[str, Any]]:
    def event(tid: int, what: str, **args: object) -> dict[str, Any]:
        return {"ph": "M", "pid": _PID, "tid": tid, "name": what, "args": args}

    threads = [
        item
        for tid, track in enumerate(TRACKS, start=1)
        for item in (
            event(tid, "thread_name", name=track),
            event(tid, "thread_sort_index", sort_index=tid),
        )
    ]
    return [event(0, "process_name", name="specguide"), *threads]


def _complete_event(span: Span, origin_ns: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": _PID,
        "tid": TRACKS.index(span.track) + 1,
        "cat": span.track,
        "name": span.name,
        "ts": (span.begin_ns - origin_ns) / 1e3,
        "dur": (span.end_ns - span.begin_ns) / 1e3,
        "args": dict(span.args),
    }
