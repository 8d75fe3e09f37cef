"""Owns the interface of the grammar executor, and the making of the native one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from specguide import native
from specguide.config.resolved import CallbackConfig
from specguide.drafts.layout import DraftLayout
from specguide.guided.grammar_stream.buffers import GrammarBuffers, WalkedNodes
from specguide.guided.grammar_stream.walk_shapes import ChainWalks


class GrammarExecutor(Protocol):
    """Runs the walks of all slots. `native.GrammarExecutor` describes the methods."""

    def submit(
        self,
        started: Sequence[tuple[int, native.Matcher | None]],
        continued: Sequence[int],
        texts: Mapping[int, Sequence[int]],
        limits: Mapping[int, native.DraftLimits],
        iteration_limits: native.DraftLimits | None,
        restarts: Mapping[int, Callable[[list[int]], native.Matcher]],
    ) -> None: ...

    def discard_snapshots(self) -> None: ...

    def detach(self, slot: int) -> None: ...

    def is_idle(self, slot: int) -> bool: ...

    def error(self, slot: int) -> str | None: ...

    def check(self) -> None: ...

    def callbacks(self) -> Sequence[native.HostFunction]: ...

    def counters(self) -> Any: ...

    def log_callbacks(self, capacity: int) -> None: ...

    def take_callback_spans(self) -> list[tuple[int, int, int, int]]: ...


@dataclass(frozen=True, eq=False)
class Walked:
    """What the grammar walks over.

    nodes:      the nodes of all slots, on the host
    shape:      the parts that depend on the shape of drafts, and the draft layout
    vocab_size: width of the target's logits
    lookup:     finds the drafts that are looked up; None where there are none
    """

    nodes: WalkedNodes
    shape: ChainWalks
    vocab_size: int
    lookup: native.LookupSource | None = None

    @property
    def layout(self) -> DraftLayout:
        """The whole draft layout."""
        return self.shape.layout


ExecutorFactory = Callable[[GrammarBuffers, Walked, CallbackConfig], GrammarExecutor]
"""A function that makes an executor from buffers on the host, what is walked over, and a
configuration of deadlines and threads."""


def native_executor(
    buffers: GrammarBuffers, walked: Walked, config: CallbackConfig
) -> GrammarExecutor:
    """The native executor, which the engine uses unless it is given another factory."""
    shape = walked.shape
    return native.GrammarExecutor(
        native.GrammarBuffers(
            limits=shape.limits(shape.layout),
            vocab_size=walked.vocab_size,
            stage_begins=shape.stage_begins,
            num_kept_rows=buffers.num_kept_rows,
            **buffers.arrays(),
            **shape.node_arrays(walked.nodes),
        ),
        native.ExecutorOptions(
            num_threads=config.num_threads,
            deadline_us=config.deadline_us,
            draft_wait_us=config.draft_wait_us,
            target_wait_us=config.target_wait_us,
        ),
        walked.lookup,
    )
