"""Owns draft trees: how they grow depth by depth with the grammar beside, are verified, and
followed.

The drafter expands some nodes at each depth, all in one pass; the walk follows them meanwhile, so
that their children are chosen among what the grammar allows. Which candidates are verified is known
at the end; those that were not expanded the walk follows beside the target's next forward.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specguide.draft_tree import TreeExpansion
from specguide.draft_window import DraftWindow
from specguide.guided.stream import GrammarStream
from specguide.kernels import constant
from specguide.sampling import (
    GrowingTrees,
    SlotTrees,
    TreeLevel,
    accept_trees,
    finish_trees,
    grow_trees,
    score_tokens,
)
from specguide.slots import Slots, SlotTable
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.query import Query, chain_query, tree_query
from specguide.speculation.results import Verified
from specguide.speculation.sampler import Sampler
from specguide.speculation.selection import Sampling, SamplingKind


class DraftedTrees:
    """The trees of all slots, which an iteration may draft smaller. D is their depth, N their
    number of nodes."""

    def __init__(
        self, passes: ForwardPasses, sampler: Sampler, state: SlotTable, guide: GrammarStream
    ) -> None:
        assert guide.window.tree is not None
        self._passes, self._sampler, self._state, self._guide = passes, sampler, state, guide
        self._recorder = guide.recorder
        self._accepted_path = state.nodes.accepted_path
        self._trees = SlotTrees.empty(len(state.ids), guide.window.tree.num_nodes, state.ids.device)

    def clear(self, slots: Tensor) -> None:
        """Forget the drafts of `slots` int64 [B]."""
        self._trees.clear(slots)

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        """No drafts for any slot; one that was held keeps those it has."""
        self._trees.drop(slots, num_accepted < 0)

    def query(self, slots: Slots, expansion: TreeExpansion) -> Query:
        """The nodes to verify; of a slot that was held, and whose tree is larger, the first
        ones."""
        trees, start = self._trees.select(slots, expansion.num_nodes), self._state.lengths[slots]
        tokens = torch.cat([self._state.nodes.tokens[slots, :1], trees.tokens[:, 1:]], dim=1)
        return replace(
            tree_query(self._state, tokens, start, trees.depths, trees.sees, slots), trees=trees
        )

    def verify(
        self, logits: Tensor, query: Query, taps: Tensor, sampling: Sampling, depth: int
    ) -> tuple[Verified, Query, Tensor]:
        """Choose a token after every node, take the longest path that matches into the slots'
        state, and leave its keys as if it had been a chain.

        logits: [B · N, vocab_size]
        taps:   [B · N, …]
        depth:  D
        Returns what was verified along that path, which also is the chain that the drafter goes on
        from, and its taps.
        """
        assert query.trees is not None
        said, slots = self._sampler.choose(logits, query, sampling), self._state.ids[query.slots]
        num_accepted, path = self._accept(said, query, slots, depth)
        nodes = path.clamp(min=0)
        said_on_path = said.gather(1, nodes)
        index = (query.first_node[:, None] + nodes).flatten()
        drafts = query.trees.tokens.gather(1, nodes[:, 1:]).masked_fill(path[:, 1:] < 0, -1)
        if sampling.kind >= SamplingKind.ADJUSTED:
            self._state.adjustments.take(slots, said_on_path, num_accepted)
        scores = (
            score_tokens(logits[index], said_on_path)
            if sampling.kind >= SamplingKind.SCORED
            else None
        )
        self._passes.move_keys(path[:, 1:], query)
        tokens = query.input_ids[index].view(nodes.shape).int()
        verified = Verified(said_on_path, num_accepted, drafts, scores, {})
        return verified, chain_query(self._state, tokens, query.start, query.slots), taps[index]

    def _accept(
        self, said: Tensor, query: Query, slots: Tensor, depth: int
    ) -> tuple[Tensor, Tensor]:
        state = self._state
        return accept_trees(
            said,
            slots,
            query.start,
            self._trees,
            depth,
            tokens=state.nodes.tokens,
            accepted_path=self._accepted_path,
            late=self._guide.held,
            active=state.active,
            lengths=state.lengths,
            max_lens=state.max_lens,
            end_ids=state.end_ids,
            slot_num_accepted=state.nodes.num_accepted,
        )

    def draft(
        self, query: Query, verified: Verified, taps: Tensor, num_slots: int, window: DraftWindow
    ) -> None:
        """Refresh the drafter from the target's hidden states along the path, then grow the tree of
        `window`."""
        slots, expansion, state = query.slots, window.tree, self._state
        assert expansion is not None
        walk = dict(walk_tokens=self._state.nodes.tokens, walk_parents=self._state.nodes.parents)
        self._guide.launch(1, num_slots)
        normed, hidden = self._passes.refresh(query, taps, verified.tokens, verified.num_accepted)
        start = state.lengths[slots]
        ids = state.ids[slots]
        growing = GrowingTrees.empty(expansion, ids, verified.num_accepted)
        level = TreeLevel.root(state.nodes.tokens[slots, :1], state.drafts.guides[slots])
        for depth in range(1, expansion.depth + 1):
            self._guide.announce_wait()
            logits = self._passes.draft_logits(normed)
            self._recorder.forward(f"draft {depth}")
            self._guide.wait_rows()
            rows = self._guide.rows(level.row_ids)
            children = self._sampler.children(
                logits, rows, ids, depth - 1, expansion.num_children, self._passes.target_ids
            )
            level = grow_trees(
                *children,
                level,
                growing,
                expansion,
                depth,
                num_model=state.drafts.num_model,
                guides=state.drafts.guides,
                **walk,
            )
            if depth == expansion.depth:
                break
            self._recorder.forward(f"choose {depth}")
            self._guide.launch(depth + 1, num_slots)
            num_before = constant(expansion.num_before[: level.sees.shape[2]], hidden.device)
            normed, hidden = self._passes.draft_nodes(
                level.tokens, hidden[level.parent_ids], start, num_before, level.sees, slots
            )
        finish_trees(growing, expansion, self._trees, **walk)
        self._recorder.forward(f"choose {expansion.depth}")
