"""Owns what runs the walks of all slots: the interface that the grammar stream drives, and the one
in C++ behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from specguide import native
from specguide.draft_layout import DraftLayout
from specguide.guided.buffers import GrammarBuffers, WalkedNodes
from specguide.resolved_config import CallbackConfig


class GrammarExecutor(Protocol):
    """As `native.GrammarExecutor`, which says what each means."""

    def submit(
        self,
        started: Sequence[tuple[int, native.Matcher | None]],
        continued: Sequence[int],
        texts: Mapping[int, Sequence[int]],
        limits: Mapping[int, native.DraftLimits],
        iteration_limits: native.DraftLimits | None,
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

    nodes:      of all slots, on the host
    window:     the drafts that there may be
    vocab_size: width of the target's logits
    lookup:     finds the drafts that are looked up; None where there are none
    """

    nodes: WalkedNodes
    window: DraftLayout
    vocab_size: int
    lookup: native.LookupSource | None = None


ExecutorFactory = Callable[[GrammarBuffers, Walked, CallbackConfig], GrammarExecutor]
"""Makes one for buffers on the host, what is walked over, deadlines and threads."""


def native_executor(
    buffers: GrammarBuffers, walked: Walked, config: CallbackConfig
) -> GrammarExecutor:
    """The one that the engine takes unless it is told otherwise."""
    window = walked.window
    return native.GrammarExecutor(
        native.GrammarBuffers(
            limits=draft_limits(window),
            vocab_size=walked.vocab_size,
            stage_begins=[] if window.is_path else list(window.stages),
            **buffers.arrays(),
            **_node_arrays(walked),
        ),
        native.ExecutorOptions(
            num_threads=config.num_threads,
            deadline_us=config.deadline_us,
            draft_wait_us=config.draft_wait_us,
            target_wait_us=config.target_wait_us,
        ),
        walked.lookup,
    )


def draft_limits(layout: DraftLayout) -> native.DraftLimits:
    """Most drafts of a layout, as the executor takes them."""
    return native.DraftLimits(
        num_draft_tokens=layout.num_model,
        num_forced_tokens=layout.num_forced,
        num_lookup_tokens=layout.num_lookup,
    )


def _node_arrays(walked: Walked) -> dict[str, npt.NDArray[np.int32]]:
    names = ["tokens", "num_accepted"]
    names += [] if walked.window.is_path else ["parents", "accepted_path"]
    return {name: getattr(walked.nodes, name).numpy() for name in names}
