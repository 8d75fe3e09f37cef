"""Owns the parts of the grammar stream that depend on the shape of drafts: what the executor walks
over, and which rows the step needs after each callback."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from specguide import native
from specguide.drafts.layout import DraftLayout
from specguide.guided.grammar_stream.buffers import ProposalBuffers, WalkedNodes


class ChainWalks:
    """Walks over chains: each draft follows the one before, and each node is a stage.

    layout: the whole draft layout
    """

    def __init__(self, layout: DraftLayout) -> None:
        self.layout = layout

    def limits(self, layout: DraftLayout) -> native.DraftLimits:
        """The draft limits of `layout`, a part of the whole one that a request or an iteration
        drafts."""
        return native.DraftLimits(
            num_draft_tokens=layout.num_model,
            num_forced_tokens=layout.num_forced,
            num_lookup_tokens=layout.num_lookup,
        )

    def request_limits(self, layout: DraftLayout) -> native.DraftLimits:
        """The draft limits of a request that drafts `layout`."""
        return self.limits(layout)

    def proposals(self, num_slots: int, *, pinned: bool) -> ProposalBuffers | None:
        """The host buffers that callbacks and step share beside the rows; None: there are none."""
        return None

    @property
    def stage_begins(self) -> Sequence[int]:
        """The first place of each stage, and at the end the number of places; empty where each node
        is a stage."""
        return ()

    def node_arrays(self, nodes: WalkedNodes) -> dict[str, npt.NDArray[np.int32]]:
        """The arrays that are walked over, by their names in `native.GrammarBuffers`."""
        return {"tokens": nodes.tokens.numpy(), "num_accepted": nodes.num_accepted.numpy()}

    def target_rows(self, num_nodes: int | None) -> slice:
        """The nodes whose rows the step needs after callback 0: all nodes that are verified, since
        late rows have come by then. num_nodes: nodes of the iteration; None: all"""
        return slice(0, num_nodes)

    def draft_rows(self, callback: int) -> slice:
        """The nodes whose rows the step needs after callback j > 0: the nodes of that callback."""
        return slice(callback - 1, callback)


class ProposedChainWalks(ChainWalks):
    """Walks over chains in which some drafts come from the host, or all where there is no draft
    head or model."""

    def proposals(self, num_slots: int, *, pinned: bool) -> ProposalBuffers | None:
        return ProposalBuffers.allocate(num_slots, self.layout.num_places, pinned=pinned)

    def draft_rows(self, callback: int) -> slice:
        return super().draft_rows(callback) if self.layout.num_model else slice(0, 0)


class TreeWalks(ChainWalks):
    """Walks over trees: a stage has several nodes."""

    def request_limits(self, layout: DraftLayout) -> native.DraftLimits:
        """The limits of the whole layout: the step leaves nodes out by itself."""
        return self.limits(self.layout)

    @property
    def stage_begins(self) -> Sequence[int]:
        return self.layout.stages

    def node_arrays(self, nodes: WalkedNodes) -> dict[str, npt.NDArray[np.int32]]:
        return super().node_arrays(nodes) | {
            "parents": nodes.parents.numpy(),
            "accepted_path": nodes.accepted_path.numpy(),
        }

    def target_rows(self, num_nodes: int | None) -> slice:
        return slice(0, self.layout.num_places)

    def draft_rows(self, callback: int) -> slice:
        return slice(*self.layout.stages[callback - 1 : callback + 1])
