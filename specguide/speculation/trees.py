"""Owns draft trees: they grow depth by depth while the grammar walks over them, and are verified.

The drafter expands some nodes at each depth, all in one pass. Meanwhile the grammar walks over
these nodes, so that their children can be chosen among the tokens that it allows. The nodes to
verify are known only at the end; the grammar walks over those that were not expanded during the
target's next forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.drafts.layout import DraftLayout
from specguide.drafts.tree_layout import TreeExpansion, TreeLayout
from specguide.kernels import LogitsShare, constant, on_device
from specguide.sampling import (
    Branches,
    Frontier,
    GrowingTrees,
    SlotTrees,
    accept_drafts,
    finish_trees,
    grow_trees,
    score_tokens,
)
from specguide.slots import Slots
from specguide.speculation.batch_sampling import Sampling, SamplingKind
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import Accepted, DraftingParts, accept_state
from specguide.speculation.forward_input import ForwardInput, Nodes, chain_input, tree_input
from specguide.speculation.results import VerifyOutput


@dataclass(frozen=True, eq=False)
class TreeNodes(Nodes):
    """The nodes of trees. trees: those of the B requests; depth: D, most drafts that are
    accepted"""

    trees: SlotTrees
    depth: int


class Trees:
    """The `Drafting` of trees. D is their depth, N their number of nodes; an iteration may draft
    smaller ones."""

    def __init__(self, parts: DraftingParts) -> None:
        self._passes, self._sampler, self._state, self._grammar = parts
        self._chains = Chains(parts)  # for nodes without drafts
        self._slot_nodes = self._state.nodes
        self._accept_state = accept_state(parts)
        num_nodes = self._grammar.layout.num_nodes
        self._trees = SlotTrees.empty(len(self._state.ids), num_nodes, self._state.ids.device)
        self._walk = dict(
            walk_tokens=self._slot_nodes.tokens, walk_parents=self._slot_nodes.parents
        )

    def clear(self, slots: Sequence[int]) -> None:
        self._trees.clear(on_device(slots, self._state.ids.device))

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        self._trees.drop(slots, num_accepted < 0)

    def golden(self, inputs: ForwardInput) -> Nodes:
        return self._chains.golden(inputs)

    def nodes(self, slots: Slots, layout: DraftLayout) -> Nodes:
        """The nodes of each slot's tree. Where a slot was held and its tree is larger than
        `layout`, the first nodes of it."""
        if not layout.num_drafts:
            return self._chains.nodes(slots, layout)
        state = self._state
        start = self._state.lengths[slots]
        trees = self._trees.select(slots, layout.num_nodes)
        tokens = torch.cat([self._slot_nodes.tokens[slots, :1], trees.tokens[:, 1:]], dim=1)
        most_drafts = self._slot_nodes.accepted_path.shape[1]
        return TreeNodes(
            tree_input(state, tokens, start, trees.depths, trees.ancestor_mask, slots),
            self._grammar.place_rows(slots, trees.places),
            trees.depths,
            lambda: trees.paths(most_drafts),
            trees,
            layout.num_drafts,
        )

    def verify(
        self, logits: Tensor | LogitsShare, nodes: Nodes, features: Tensor, sampling: Sampling
    ) -> Accepted:
        """See `Drafting`. Moves the keys of the accepted path to the positions of a chain."""
        if not isinstance(nodes, TreeNodes):
            return self._chains.verify(logits, nodes, features, sampling)
        inputs = nodes.inputs
        slots = self._state.ids[nodes.inputs.slots]
        target_tokens = self._sampler.choose(logits, nodes, sampling)
        branches = Branches(self._trees, nodes.depth, self._slot_nodes.accepted_path)
        num_accepted, path = accept_drafts(
            target_tokens, slots, inputs.start, self._accept_state, branches
        )
        assert path is not None
        on_path = path.clamp(min=0)
        path_tokens = target_tokens.gather(1, on_path)
        index = (inputs.first_node[:, None] + on_path).flatten()
        drafts = nodes.trees.tokens.gather(1, on_path[:, 1:]).masked_fill(path[:, 1:] < 0, -1)
        if sampling.kind >= SamplingKind.ADJUSTED:
            self._state.adjustments.take(slots, path_tokens, num_accepted)
        scores = None
        if sampling.kind >= SamplingKind.SCORED:
            assert isinstance(logits, Tensor)  # only greedy batches have a share
            scores = score_tokens(logits[index], path_tokens)
        self._passes.move_keys(path[:, 1:], inputs)
        tokens = inputs.input_ids[index].view(on_path.shape).int()
        chain = chain_input(self._state, tokens, inputs.start, inputs.slots)
        num_drafts = (nodes.trees.tokens[:, 1:] >= 0).sum(dim=1, dtype=torch.int32)
        verified = VerifyOutput(
            path_tokens, num_accepted, drafts, scores, {}, num_drafts=num_drafts
        )
        return Accepted(verified, chain, features[index])

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """Refresh the drafter from the target's hidden states along the path, then grow the tree of
        `layout`."""
        assert isinstance(layout, TreeLayout)
        verified, inputs, features, beside = accepted
        growth = layout.growth
        state = self._state
        grammar = self._grammar
        ids = self._state.ids[inputs.slots]
        grammar.launch(1, num_slots)
        self._passes.store(beside)
        normed, hidden = self._passes.refresh(
            inputs, features, verified.tokens, verified.num_accepted
        )
        start = state.lengths[inputs.slots]
        growing = GrowingTrees.empty(growth, ids, verified.num_accepted)
        golden = self._slot_nodes.tokens[inputs.slots, :1]
        frontier = Frontier.root(golden, state.drafts.row_slots[inputs.slots])
        for depth in range(1, growth.depth + 1):
            frontier = self._grow(normed, frontier, growing, growth, depth)
            if depth == growth.depth:
                break
            grammar.recorder.forward(f"choose {depth}")
            grammar.launch(depth + 1, num_slots)
            num_before = growth.num_before[: frontier.ancestor_mask.shape[2]]
            normed, hidden = self._passes.draft_nodes(
                frontier.tokens,
                hidden[frontier.parent_ids],
                start,
                constant(num_before, hidden.device),
                frontier.ancestor_mask,
                inputs.slots,
            )
        finish_trees(growing, growth, self._trees, **self._walk)
        grammar.recorder.forward(f"choose {growth.depth}")

    def _grow(
        self,
        normed: Tensor,
        frontier: Frontier,
        growing: GrowingTrees,
        growth: TreeExpansion,
        depth: int,
    ) -> Frontier:
        """Draft the children of the frontier, and return those that are expanded next."""
        grammar, drafts = self._grammar, self._state.drafts
        grammar.announce_wait()
        logits = self._passes.draft_logits(normed)
        grammar.recorder.forward(f"draft {depth}")
        grammar.wait_rows()
        rows = grammar.rows(frontier.row_ids)
        children = self._sampler.children(
            logits, rows, growing.slots, depth - 1, growth.num_children, self._passes.target_ids
        )
        return grow_trees(
            *children,
            frontier,
            growing,
            growth,
            depth,
            num_model=drafts.num_model,
            row_slots=drafts.row_slots,
            **self._walk,
        )
