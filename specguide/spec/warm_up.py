"""Owns iterations without requests, which have an iteration's graphs captured before any request waits for them."""

from __future__ import annotations

from collections.abc import Callable

from specguide.batch import GuideSnapshot
from specguide.guided.decoder import GuidedDecoder
from specguide.spec.selection import SamplingKind, graph_sizes

GraphKind = tuple[int, SamplingKind]
"""Number of slots, and what the choice of tokens takes."""


def graph_kinds(max_batch_size: int) -> list[GraphKind]:
    """Of all iterations that can come up, in the order in which to capture them."""
    return [(size, kind) for size in graph_sizes(max_batch_size) for kind in SamplingKind]


def run_idle(guide: GuidedDecoder, decode: Callable[[], object]) -> None:
    """Run `decode` over slots that have no requests until it runs as graphs, and wait for it.

    Such slots are not active: nothing is stored or accepted for them, and the callbacks find an empty snapshot. The
    first run is eager and the second one captures, for every turn of a recorder.
    """
    for _ in range(2 * guide.recorder.num_turns):
        guide.submit(GuideSnapshot(started=(), continued=()))
        with guide.on_forward_stream():
            guide.recorder.begin_iteration("warm-up")
            decode()
    if guide.forward_stream is not None:
        guide.forward_stream.synchronize()
