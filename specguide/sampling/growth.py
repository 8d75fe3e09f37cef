"""Owns the growth of draft trees: which candidates are expanded at each depth, and which nodes are
verified in the end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from specguide.drafts.tree_layout import TreeExpansion
from specguide.kernels import constant
from specguide.sampling.trees import SlotTrees


@dataclass(frozen=True, eq=False)
class GrowingTrees:
    """All C candidates of B trees, in the order of `TreeExpansion`.

    slots:        int64 [B]
    num_accepted: int32 [B], drafts that the last verification accepted; -1: the slot was held, and
                  nothing is written for it
    tokens:       int32 [B, C], -1 where there is no candidate
    scores:       float32 [B, C], logarithms of the products of the probabilities on their paths
    places:       int32 [B, C], the place of each expanded candidate in the grammar's walk; 0 for
                  the others
    """

    slots: Tensor
    num_accepted: Tensor
    tokens: Tensor
    scores: Tensor
    places: Tensor

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.tokens.device

    def take_in(self, span: slice, tokens: Tensor, scores: Tensor, places: Tensor) -> None:
        """Write the values of the candidates of a depth, [B, n] each."""
        self.tokens[:, span] = tokens
        self.scores[:, span] = scores
        self.places[:, span] = places

    @classmethod
    def empty(cls, expansion: TreeExpansion, slots: Tensor, num_accepted: Tensor) -> GrowingTrees:
        """Uninitialised memory for all candidates of these trees."""

        def empty(dtype: torch.dtype) -> Tensor:
            return torch.empty(
                len(slots), expansion.num_candidates, dtype=dtype, device=slots.device
            )

        return cls(
            slots, num_accepted, empty(torch.int32), empty(torch.float32), empty(torch.int32)
        )


@dataclass(frozen=True, eq=False)
class Frontier:
    """The w nodes of each of B trees that are expanded at one depth. M nodes have been expanded so
    far, in all depths.

    tokens:     int32 [B, w]
    scores:     float32 [B, w]
    parent_ids: int64 [B · w], index of each node's parent among the B · v nodes of the depth
                before; int64 [0] for the golden tokens
    row_ids:    int64 [B · w], the bitmask row behind each node
    ancestor_mask: bool [B, w, M], which of the expanded nodes are on the path to each node
    """

    tokens: Tensor
    scores: Tensor
    parent_ids: Tensor
    row_ids: Tensor
    ancestor_mask: Tensor

    @classmethod
    def root(cls, golden: Tensor, row_ids: Tensor) -> Frontier:
        """The frontier of the golden tokens, int32 [B, 1]."""
        size = len(golden), 1
        return cls(
            golden,
            torch.zeros(size, device=golden.device),
            row_ids[:0],
            row_ids,
            torch.zeros(*size, 0, dtype=torch.bool, device=golden.device),
        )


def grow_trees(
    tokens: Tensor,
    logprobs: Tensor,
    frontier: Frontier,
    growing: GrowingTrees,
    expansion: TreeExpansion,
    depth: int,
    *,
    walk_tokens: Tensor,
    walk_parents: Tensor,
    num_model: Tensor,
    row_slots: Tensor,
) -> Frontier:
    """Take the candidates of a depth, and choose those to expand, which is none at the last depth.
    Of candidates with equal scores, the first are taken.

    tokens, logprobs: int32 and float32 [B, v, k], children of the nodes of `frontier`; -1 and -inf
                      where there is none
    growing:          the candidates of this depth are written into it
    walk_tokens, walk_parents: int32 [S, places], by slot: written with each expanded node's token
                      and its parent's place; tokens are -1 at further places of the stage
    num_model:        int32 [S], most drafts on a path of each slot
    row_slots:        int64 [S], the slot whose bitmask rows are used
    """
    is_too_deep = (num_model[growing.slots] < depth)[:, None]
    scores = (frontier.scores[:, :, None] + logprobs).flatten(1).masked_fill(is_too_deep, -math.inf)
    tokens = tokens.flatten(1).masked_fill(is_too_deep, -1)
    chosen = _expanded(scores, expansion, depth)
    begin, places = expansion.places_of(depth)
    at = constant(places, scores.device)
    span = slice(*expansion.candidate_begins[depth - 1 : depth + 1])
    growing.take_in(span, tokens, scores, _scattered(chosen, at, tokens))
    chosen_tokens = tokens.gather(1, chosen)
    parents = chosen // expansion.num_children
    if places:
        room = (0, expansion.num_missing(depth))
        _store(walk_tokens, growing, pad(chosen_tokens, room, value=-1), places[0])
        _store(walk_parents, growing, parents + begin, places[0])
    return Frontier(
        chosen_tokens,
        scores.gather(1, chosen),
        _numbered(parents, frontier.tokens.shape[1]),
        (at * len(row_slots) + row_slots[growing.slots][:, None]).flatten(),
        _behind(frontier.ancestor_mask, parents),
    )


def _scattered(chosen: Tensor, values: Tensor, like: Tensor) -> Tensor:
    """A tensor like `like` with the values [w] at the indices chosen [B, w], and 0 elsewhere."""
    values = values.to(like.dtype).expand(len(like), -1)
    return torch.zeros_like(like).scatter_(1, chosen, values)


def _numbered(parents: Tensor, num_parents: int) -> Tensor:
    """int64 [B · w], parents [B, w] as indices into the nodes of all trees."""
    first = torch.arange(len(parents), device=parents.device)[:, None] * num_parents
    return (parents + first).flatten()


def _expanded(scores: Tensor, expansion: TreeExpansion, depth: int) -> Tensor:
    """Which candidates of a depth are expanded, int64 [B, w]."""
    _, places = expansion.places_of(depth)
    if expansion.fixed is None or not places:
        return _likeliest(scores, len(places))
    chosen = constant(expansion.fixed.expanded[depth - 1], scores.device)
    return chosen.expand(len(scores), -1) - expansion.candidate_begins[depth - 1]


def _behind(ancestor_mask: Tensor, parents: Tensor) -> Tensor:
    """The ancestor mask of new nodes, bool [B, w, M + w]. parents: [B, w], indices into
    ancestor_mask [B, v, M]"""
    num_trees, width = parents.shape
    index = parents[:, :, None].expand(-1, -1, ancestor_mask.shape[2])
    itself = torch.eye(width, dtype=torch.bool, device=parents.device)
    return torch.cat([ancestor_mask.gather(1, index), itself.expand(num_trees, -1, -1)], dim=2)


def _chosen(growing: GrowingTrees, expansion: TreeExpansion) -> Tensor:
    """The N - 1 candidates to verify, int64 [B, N - 1], parents before their children."""
    if expansion.fixed is not None:
        places = constant(expansion.fixed.chosen, growing.tokens.device)
        return places.expand(len(growing.tokens), -1)
    return _likeliest(growing.scores, expansion.num_nodes - 1).sort(dim=1).values


def finish_trees(
    growing: GrowingTrees,
    expansion: TreeExpansion,
    trees: SlotTrees,
    *,
    walk_tokens: Tensor,
    walk_parents: Tensor,
) -> None:
    """Choose the N - 1 candidates to verify, parents before their children.

    trees: the trees of all slots, written
    walk_tokens, walk_parents: int32 [S, places], by slot: written as in `grow_trees`, here for the
                               nodes that were not expanded
    The parent of a chosen candidate is always chosen: its score is at least as good, and it comes
    first.
    """
    num_trees = len(growing.tokens)
    device = growing.tokens.device
    chosen = _chosen(growing, expansion)
    tokens, places = growing.tokens.gather(1, chosen), growing.places.long().gather(1, chosen)
    parent_places = constant(expansion.expanded_places, device)[chosen // expansion.num_children]
    nodes = torch.arange(1, expansion.num_nodes, device=device).expand_as(places)
    is_leaf = places == 0
    places = torch.where(is_leaf, nodes + (expansion.stage_begins[-2] - 1), places)
    node_at = torch.zeros(num_trees, expansion.num_places, dtype=torch.int64, device=device)
    parents = pad(node_at.scatter_(1, places, nodes).gather(1, parent_places), (1, 0))
    depths = pad(
        constant(expansion.candidate_depths, device).expand(num_trees, -1).gather(1, chosen), (1, 0)
    )
    grown = SlotTrees(
        pad(tokens, (1, 0), value=-1),
        parents,
        depths,
        pad(places, (1, 0)),
        _seen(parents, expansion.depth),
    )
    trees.store(grown, growing.slots, growing.num_accepted < 0)
    first_leaf, end = expansion.stage_begins[-2:]
    leaves = pad(
        tokens.masked_fill(~is_leaf, -1), (0, end - first_leaf - tokens.shape[1]), value=-1
    )
    _store(walk_tokens, growing, leaves, first_leaf)
    _store(walk_parents, growing, parent_places, first_leaf)


def _likeliest(scores: Tensor, num: int) -> Tensor:
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :num]


def _store(buffer: Tensor, growing: GrowingTrees, values: Tensor, begin: int) -> None:
    """Write values of nodes, [B, n], from place `begin` on into a buffer that callbacks read."""
    places = slice(begin, begin + values.shape[1])
    held = (growing.num_accepted < 0)[:, None]
    buffer[growing.slots, places] = torch.where(held, buffer[growing.slots, places], values.int())


def _seen(parents: Tensor, depth: int) -> Tensor:
    """The ancestor mask, bool [B, N, N]: a node's ancestors are itself and its parent's."""
    num_nodes = parents.shape[1]
    itself = torch.eye(num_nodes, dtype=torch.bool, device=parents.device)
    ancestor_mask, index = (
        itself.expand(len(parents), -1, -1),
        parents[:, :, None].expand(-1, -1, num_nodes),
    )
    for _ in range(depth):
        ancestor_mask = itself | ancestor_mask.gather(1, index)
    return ancestor_mask
