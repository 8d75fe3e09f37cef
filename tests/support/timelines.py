"""Owns what the timeline tests share: spans by track and iteration, and the course that every
iteration takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from specguide.trace import Span


def track(spans: Sequence[Span], name: str) -> list[Span]:
    return [span for span in spans if span.track == name]


def by_iteration(spans: Sequence[Span], name: str) -> dict[int, list[Span]]:
    """A track's spans by their iteration, both in order."""
    found: dict[int, list[Span]] = defaultdict(list)
    for span in track(spans, name):
        found[int(span.args["iteration"])].append(span)
    return dict(sorted(found.items()))


def check_iterations(spans: Sequence[Span], num_draft_tokens: int) -> None:
    """Check that each iteration has its forward spans without gaps, and K + 1 callbacks on both of
    their tracks."""
    course = ["prepare", "target forward", "wait rows", "verify"]
    for node in range(1, num_draft_tokens + 1):
        course += [f"draft {node}", "wait rows", f"choose {node}"]
    forward = by_iteration(spans, "forward stream")
    assert list(forward) == list(range(1, len(forward) + 1)) and forward
    for some in forward.values():
        assert [span.name for span in some] == course
        assert (
            sum(span.end_ns - span.begin_ns for span in some) == some[-1].end_ns - some[0].begin_ns
        )
    callbacks = [f"callback {index}" for index in range(num_draft_tokens + 1)]
    for name in ("callbacks", "grammar stream"):
        found = by_iteration(spans, name)
        assert list(found) == list(forward)
        for some in found.values():
            names = [span.name for span in some if span.name.startswith("callback")]
            assert names == callbacks
