"""Owns what the grammar stream must know of the shape of drafts: what the executor walks over, and
which rows the step wants after each callback."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from specguide import native
from specguide.draft_layout import DraftLayout
from specguide.guided.buffers import ProposalBuffers, RowsOnGpu, WalkedNodes
from specguide.kernels import copy_guided_rows


class ChainWalks:
    """One draft behind the other: each node is a stage, and its row is copied whole.

    layout: the drafts that there may be
    has_rows_alone: a callback fills rows of its own nodes and nothing else, so that each one's may
                    be sent by themselves
    """

    has_rows_alone = True

    def __init__(self, layout: DraftLayout) -> None:
        self.layout = layout

    def limits(self, layout: DraftLayout) -> native.DraftLimits:
        """Most drafts of a part of the layout, which a request or an iteration takes."""
        return native.DraftLimits(
            num_draft_tokens=layout.num_model,
            num_forced_tokens=layout.num_forced,
            num_lookup_tokens=layout.num_lookup,
        )

    def request_limits(self, layout: DraftLayout) -> native.DraftLimits:
        """Most drafts of a request that takes `layout`."""
        return self.limits(layout)

    def proposals(self, num_slots: int, *, pinned: bool) -> ProposalBuffers | None:
        """What callbacks and step share beside the rows, on the host; None: nothing."""
        return None

    @property
    def stage_begins(self) -> Sequence[int]:
        """The first place of each stage, and the number of places; none: each node is a stage."""
        return ()

    def node_arrays(self, nodes: WalkedNodes) -> dict[str, npt.NDArray[np.int32]]:
        """What is walked over, by the names of `native.GrammarBuffers`."""
        return {"tokens": nodes.tokens.numpy(), "num_accepted": nodes.num_accepted.numpy()}

    def copy_target_rows(
        self, rows: RowsOnGpu, num_slots: int, num_nodes: int | None = None
    ) -> None:
        """To the device, after callback 0: all that are verified, since late ones have come by
        then; num_nodes: of the iteration, None: all."""
        for node in range(num_nodes or len(rows.host.bitmask)):
            _copy_node(rows, node, num_slots)
        rows.copy_flags()
        rows.device.held.copy_(rows.host.held, non_blocking=True)

    def copy_draft_rows(self, rows: RowsOnGpu, callback: int, num_slots: int) -> None:
        """To the device, after another callback: its own."""
        _copy_node(rows, callback - 1, num_slots)
        rows.copy_flags()


class ProposedChainWalks(ChainWalks):
    """Some drafts come from the host, all of them where there is no draft head or model."""

    has_rows_alone = False

    def proposals(self, num_slots: int, *, pinned: bool) -> ProposalBuffers | None:
        return ProposalBuffers.allocate(num_slots, self.layout.num_places, pinned=pinned)

    def copy_draft_rows(self, rows: RowsOnGpu, callback: int, num_slots: int) -> None:
        if self.layout.num_model:
            super().copy_draft_rows(rows, callback, num_slots)


class TreeWalks(ChainWalks):
    """Several nodes are a stage, and of its many rows the guided ones alone are copied."""

    has_rows_alone = False

    def request_limits(self, layout: DraftLayout) -> native.DraftLimits:
        """All: the step leaves nodes out."""
        return self.limits(self.layout)

    @property
    def stage_begins(self) -> Sequence[int]:
        return self.layout.stages

    def node_arrays(self, nodes: WalkedNodes) -> dict[str, npt.NDArray[np.int32]]:
        return super().node_arrays(nodes) | {
            "parents": nodes.parents.numpy(),
            "accepted_path": nodes.accepted_path.numpy(),
        }

    def copy_target_rows(
        self, rows: RowsOnGpu, num_slots: int, num_nodes: int | None = None
    ) -> None:
        _copy_places(rows, slice(0, self.layout.num_places), num_slots)
        rows.copy_flags()
        rows.device.held.copy_(rows.host.held, non_blocking=True)

    def copy_draft_rows(self, rows: RowsOnGpu, callback: int, num_slots: int) -> None:
        begin, end = self.layout.stages[callback - 1 : callback + 1]
        _copy_places(rows, slice(begin, end), num_slots)
        rows.copy_flags()


def _copy_node(rows: RowsOnGpu, node: int, num_slots: int) -> None:
    rows.device.bitmask[node, :num_slots].copy_(
        rows.host.bitmask[node, :num_slots], non_blocking=True
    )


def _copy_places(rows: RowsOnGpu, places: slice, num_slots: int) -> None:
    bitmask, guided = rows.on_bus
    copies = rows.device.bitmask[places, :num_slots]
    copy_guided_rows(copies, bitmask[places, :num_slots], guided[places, :num_slots])
