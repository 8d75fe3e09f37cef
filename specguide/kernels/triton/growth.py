"""Owns the launches that grow draft trees on a GPU, one for each depth.

Their twin is in `sampling.growth`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import triton
from torch import Tensor

from specguide.drafts.tree_layout import TreeExpansion
from specguide.kernels.host_values import constant
from specguide.kernels.triton.growth_kernels import Drafted, Growing, Nodes, Slots, grow_kernel


def _empty_frontier(frontier: Any, width: int) -> Any:
    """An uninitialised frontier for the next `width` nodes of each tree, which come behind those of
    `frontier`."""
    num_trees, _, num_before = frontier.ancestor_mask.shape
    device = frontier.tokens.device
    shape = num_trees, width
    return replace(
        frontier,
        tokens=torch.empty(shape, dtype=torch.int32, device=device),
        scores=torch.empty(shape, dtype=torch.float32, device=device),
        parent_ids=torch.empty(num_trees * width, dtype=torch.int64, device=device),
        row_ids=torch.empty(num_trees * width, dtype=torch.int64, device=device),
        ancestor_mask=torch.empty(*shape, num_before + width, dtype=torch.bool, device=device),
    )


def _node_pointers(grown: Any, frontier: Any) -> Nodes:
    """Pointers to the nodes `grown`, which follow those of `frontier`."""
    return Nodes(
        grown.tokens,
        grown.scores,
        grown.parent_ids,
        grown.row_ids,
        grown.ancestor_mask.view(torch.uint8),
        frontier.ancestor_mask.view(torch.uint8),
    )


def _expanded(expansion: TreeExpansion, depth: int, device: torch.device) -> Tensor | None:
    """The candidates to expand at a depth; None: the most likely ones are expanded, or none."""
    if expansion.fixed is None or not expansion.places_of(depth)[1]:
        return None
    return constant(expansion.fixed.expanded[depth - 1], device)


def grow_trees(
    tokens: Tensor,
    logprobs: Tensor,
    frontier: Any,
    growing: Any,
    expansion: TreeExpansion,
    depth: int,
    *,
    walk_tokens: Tensor,
    walk_parents: Tensor,
    num_model: Tensor,
    row_slots: Tensor,
) -> Any:
    """See sampling.growth.grow_trees."""
    num_trees, num_parents, num_children = tokens.shape
    parents_place, places = expansion.places_of(depth)
    width, num_before = len(places), frontier.ancestor_mask.shape[2]
    num_missing = expansion.num_missing(depth)
    grown = _empty_frontier(frontier, width)
    slots = Slots(
        growing.slots, growing.num_accepted, num_model, row_slots, walk_tokens, walk_parents
    )
    grow_kernel[(num_trees,)](
        slots,
        Drafted(tokens, logprobs, frontier.scores, _expanded(expansion, depth, tokens.device)),
        Growing(growing.tokens, growing.scores, growing.places),
        _node_pointers(grown, frontier),
        len(row_slots),
        depth,
        expansion.candidate_begins[depth - 1],
        expansion.stage_begins[depth],
        parents_place,
        num_missing,
        PARENTS=num_parents,
        CHILDREN=num_children,
        WIDTH=width,
        BEFORE=num_before,
        NUM_CANDIDATES=expansion.num_candidates,
        NUM_PLACES=walk_tokens.shape[1],
        BLOCK=triton.next_power_of_2(num_parents * num_children),
        BLOCK_SEES=triton.next_power_of_2(num_before + max(width, 1)),
        BLOCK_MISSING=triton.next_power_of_2(max(num_missing, 1)),
        num_warps=1,
    )
    return grown
