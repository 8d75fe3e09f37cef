"""Owns GrammarStream: the interface by which engine and step use the grammar beside the forward
passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from specguide.batch import GuideSnapshot
from specguide.drafts.layout import DraftLayout
from specguide.errors import MatcherError
from specguide.guided.grammar_stream.buffers import ProposalBuffers
from specguide.kernels import BitmaskRows
from specguide.kernels.forward_stream import ForwardStream
from specguide.trace import Recorder


@dataclass(frozen=True)
class GrammarCounters:
    """Totals since construction, by their names in `native.ExecutorCounters`.

    accepts, fills, rollbacks: operations of matchers
    iterations:                guided requests, summed over iterations
    held:                      those of these that accepted nothing, since their rows were late
    late_draft_rows:           rows that a drafter had to do without
    guessed_draft_rows:        rows that a drafter took from similar states in place of the exact
                               ones
    callback_ns:               time in callbacks, nanoseconds
    busy_ns:                   time of worker threads in matchers, nanoseconds
    max_accepts, max_fills, max_rollbacks: most operations in one iteration of one guided request
    """

    accepts: int = 0
    fills: int = 0
    rollbacks: int = 0
    iterations: int = 0
    held: int = 0
    late_draft_rows: int = 0
    guessed_draft_rows: int = 0
    callback_ns: int = 0
    busy_ns: int = 0
    max_accepts: int = 0
    max_fills: int = 0
    max_rollbacks: int = 0


class GrammarStream(Protocol):
    """The grammar of an engine: it walks beside the forward passes, and fills rows.

    layout:    the whole draft layout
    recorder:  marks the streams for a timeline
    forward:   the stream of the step
    held:      uint8 [num_slots] on the step's device, 1: the slot's target rows are late, this
               iteration accepts nothing for it
    proposals: on the step's device, where some drafts come from the host; else None
    exposed_s: seconds for which the forward stream has waited for rows; None where only a timeline
               can tell

    `launch`, `announce_wait` and `wait_rows` can all be captured in a CUDA graph.
    """

    layout: DraftLayout
    recorder: Recorder
    forward: ForwardStream
    held: Tensor
    proposals: ProposalBuffers | None
    exposed_s: float | None

    def submit(self, snapshot: GuideSnapshot) -> None:
        """Hand over the next iteration's snapshot, before the iteration is launched."""

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        """Run callback 0 … K, or 1 where only the host makes drafts, on the grammar stream once the
        forward stream has reached this point.

        Callback 0 completes the target rows. Callback j > 0 follows the golden token, or draft j -
        1 of the draft head, or the nodes expanded at that depth, and fills what may follow.
        Proposals of the host are in place before the forward stream passes the `wait_rows` of the
        callback that makes them: the first one, or with a draft head the last.
        num_slots: upper bound of the slots in this iteration
        num_nodes: nodes that this iteration verifies, for callback 0; None: all
        """

    def announce_wait(self) -> None:
        """Say that the forward stream will soon wait for the callback launched last. From here on
        that callback waits for rows at most target_wait_us or draft_wait_us. A `wait_rows` must
        follow."""

    def wait_rows(self) -> None:
        """Make the forward stream wait for the callback launched last."""

    def chain_rows(self, slots: slice | Tensor, num_nodes: int) -> BitmaskRows | None:
        """The rows of the first nodes of B slots, [B · num_nodes]; None: all are free."""

    def place_rows(self, slots: slice | Tensor, places: Tensor) -> BitmaskRows | None:
        """The rows of nodes at `places` int64 [B, N] of B slots, [B · N]; None: all are free."""

    def node_rows(self, node: int, slots: Tensor) -> BitmaskRows | None:
        """The rows of one node of each of `slots` int64 [B]; None: all are free."""

    def rows(self, row_ids: Tensor) -> BitmaskRows | None:
        """The rows with these numbers, int64 [n], place · num_slots + slot; None: all are free."""

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        """The latched errors of these slots. Raises EngineError when a callback itself failed."""

    def abandon(self) -> None:
        """Give up an iteration that failed: wait for the callbacks under way, and drop those that
        will not come. Raises EngineError where the grammar stream does not finish."""

    def detach(self, slot: int) -> None:
        """Drop the slot's walk with its pending work."""

    def is_idle(self, slot: int) -> bool:
        """Whether no worker uses the slot's matcher any more."""

    def counters(self) -> GrammarCounters:
        """The totals so far."""

    def take_callback_times(self) -> list[tuple[int, int, int, int]]:
        """Iteration, index, begin and end (nanoseconds) of the callbacks since the last call; empty
        without a recorder."""
