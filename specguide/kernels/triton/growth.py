"""Owns the Triton kernel in which draft trees grow, one launch for each depth.

Its twin is in `sampling.growth`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.host_values import constant
from specguide.kernels.triton.score_order import LEAST, in_order
from specguide.tree_layout import TreeExpansion


class _Nodes(NamedTuple):
    """Pointers to the nodes that are expanded, as a Frontier has them, and to the nodes that their
    parents see."""

    tokens: Any
    scores: Any
    parent_ids: Any
    row_ids: Any
    ancestor_mask: Any
    parent_ancestors: Any


class _Walk(NamedTuple):
    """Pointers to a slot's places in the walk; those of a slot that is held stay as they are."""

    tokens: Any
    parents: Any
    is_held: Any


class _Candidates(NamedTuple):
    """Of a tree at one depth, [BLOCK]."""

    index: Any
    tokens: Any
    scores: Any
    order: Any


@triton.jit
def _load_candidates(
    tokens,
    logprobs,
    parent_scores,
    tree,
    is_drafted,
    PARENTS: tl.constexpr,
    CHILDREN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Tokens and scores -1 and -inf where none has been drafted."""
    index = tl.arange(0, BLOCK)
    exists = index < PARENTS * CHILDREN
    child = tree * PARENTS * CHILDREN + index
    token = tl.load(tokens + child, mask=exists & is_drafted, other=-1)
    score = tl.load(logprobs + child, mask=exists & is_drafted, other=float("-inf"))
    score += tl.load(parent_scores + tree * PARENTS + index // CHILDREN, mask=exists, other=0.0)
    return _Candidates(index, token, score, tl.where(exists, in_order(score), LEAST))


@triton.jit
def _expanded_at(expanded, candidates, rank, first_candidate, BLOCK: tl.constexpr):
    """Which candidate is the node of this rank."""
    if expanded is None:
        is_best = candidates.order == tl.max(candidates.order, 0)
        at = tl.min(tl.where(is_best, candidates.index, BLOCK), 0)
    else:
        at = (tl.load(expanded + rank) - first_candidate).to(tl.int32)
    return at


@triton.jit
def _store_node(nodes, node, token, score, parent_id, row_id):
    tl.store(nodes.tokens + node, token)
    tl.store(nodes.scores + node, score)
    tl.store(nodes.parent_ids + node, parent_id)
    tl.store(nodes.row_ids + node, row_id)


@triton.jit
def _store_path(
    nodes,
    node,
    parent_id,
    rank,
    BEFORE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A node sees what its parent sees, of the nodes before its depth, and of its depth itself."""
    seen = tl.arange(0, BLOCK)
    inherited = nodes.parent_ancestors + parent_id * BEFORE + seen
    inherited = tl.load(inherited, mask=seen < BEFORE, other=0)
    is_seen = tl.where(seen < BEFORE, inherited, (seen == BEFORE + rank).to(tl.uint8))
    ancestor_mask = nodes.ancestor_mask + node * (BEFORE + WIDTH) + seen
    tl.store(ancestor_mask, is_seen, mask=seen < BEFORE + WIDTH)


@triton.jit
def _store_place(walk, place, token, parent_place):
    tl.store(walk.tokens + place, token, mask=walk.is_held == 0)
    tl.store(walk.parents + place, parent_place, mask=walk.is_held == 0)


@triton.jit
def _clear_places(walk, first_place, num_places, BLOCK: tl.constexpr):
    """The places of a depth that no node takes."""
    place = tl.arange(0, BLOCK)
    is_cleared = (place < num_places) & (walk.is_held == 0)
    tl.store(walk.tokens + first_place + place, -1, mask=is_cleared)


@triton.jit
def _expand(
    candidates,
    nodes,
    walk,
    expanded,
    tree,
    row_slot,
    num_slots,
    first_candidate,
    first_place,
    parents_place,
    PARENTS: tl.constexpr,
    CHILDREN: tl.constexpr,
    WIDTH: tl.constexpr,
    BEFORE: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_SEES: tl.constexpr,
):
    """Store the candidates that are expanded; where the walk has each candidate, 0 of others."""
    index, tokens, scores, order = candidates
    place = tl.zeros_like(index)
    for rank in tl.static_range(WIDTH):
        left = _Candidates(index, tokens, scores, order)
        at = _expanded_at(expanded, left, rank, first_candidate, BLOCK)
        is_it, parent, here = index == at, at // CHILDREN, first_place + rank
        order = tl.where(is_it, LEAST, order)
        place = tl.where(is_it, here, place)
        token = tl.max(tl.where(is_it, tokens, LEAST), 0)
        score = tl.max(tl.where(is_it, scores, float("-inf")), 0)
        node, parent_id = tree * WIDTH + rank, tree * PARENTS + parent
        row_id = here.to(tl.int64) * num_slots + row_slot
        _store_node(nodes, node, token, score, parent_id, row_id)
        _store_place(walk, here, token, parents_place + parent)
        _store_path(nodes, node, parent_id, rank, BEFORE, WIDTH, BLOCK_SEES)
    return place


@triton.jit
def _store_candidates(tokens, scores, places, candidates, place, first, NUM: tl.constexpr):
    at = first + candidates.index
    exists = candidates.index < NUM
    tl.store(tokens + at, candidates.tokens, mask=exists)
    tl.store(scores + at, candidates.scores, mask=exists)
    tl.store(places + at, place, mask=exists)


@triton.jit(
    do_not_specialize=[
        "num_slots",
        "depth",
        "first_candidate",
        "first_place",
        "parents_place",
        "num_missing",
    ]
)
def _grow_kernel(
    tokens,
    logprobs,
    parent_scores,
    parent_ancestors,
    slots,
    num_accepted,
    num_model,
    row_slots,
    expanded,
    candidate_tokens,
    candidate_scores,
    candidate_places,
    walk_tokens,
    walk_parents,
    node_tokens,
    node_scores,
    parent_ids,
    row_ids,
    ancestor_mask,
    num_slots,
    depth,
    first_candidate,
    first_place,
    parents_place,
    num_missing,
    PARENTS: tl.constexpr,
    CHILDREN: tl.constexpr,
    WIDTH: tl.constexpr,
    BEFORE: tl.constexpr,
    NUM_CANDIDATES: tl.constexpr,
    NUM_PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_SEES: tl.constexpr,
    BLOCK_MISSING: tl.constexpr,
):
    """One tree. `expanded` points to the candidates to expand; None: the likeliest."""
    tree = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + tree)
    is_held = tl.load(num_accepted + tree) < 0
    is_drafted = tl.load(num_model + slot) >= depth
    candidates = _load_candidates(
        tokens, logprobs, parent_scores, tree, is_drafted, PARENTS, CHILDREN, BLOCK
    )
    row_slot = tl.load(row_slots + slot)
    walk = _Walk(walk_tokens + slot * NUM_PLACES, walk_parents + slot * NUM_PLACES, is_held)
    nodes = _Nodes(node_tokens, node_scores, parent_ids, row_ids, ancestor_mask, parent_ancestors)
    place = _expand(
        candidates,
        nodes,
        walk,
        expanded,
        tree,
        row_slot,
        num_slots,
        first_candidate,
        first_place,
        parents_place,
        PARENTS,
        CHILDREN,
        WIDTH,
        BEFORE,
        BLOCK,
        BLOCK_SEES,
    )
    _clear_places(walk, first_place + WIDTH, num_missing, BLOCK_MISSING)
    first = tree * NUM_CANDIDATES + first_candidate
    _store_candidates(
        candidate_tokens,
        candidate_scores,
        candidate_places,
        candidates,
        place,
        first,
        PARENTS * CHILDREN,
    )


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
    first_place = expansion.stage_begins[depth]
    num_missing = expansion.stage_begins[depth + 1] - first_place - width if width else 0

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=tokens.device)

    grown = replace(
        frontier,
        tokens=empty(torch.int32, num_trees, width),
        scores=empty(torch.float32, num_trees, width),
        parent_ids=empty(torch.int64, num_trees * width),
        row_ids=empty(torch.int64, num_trees * width),
        ancestor_mask=empty(torch.bool, num_trees, width, num_before + width),
    )
    expanded = None
    if expansion.fixed is not None and width:
        expanded = constant(expansion.fixed.expanded[depth - 1], tokens.device)
    _grow_kernel[(num_trees,)](
        tokens,
        logprobs,
        frontier.scores,
        frontier.ancestor_mask.view(torch.uint8),
        growing.slots,
        growing.num_accepted,
        num_model,
        row_slots,
        expanded,
        growing.tokens,
        growing.scores,
        growing.places,
        walk_tokens,
        walk_parents,
        grown.tokens,
        grown.scores,
        grown.parent_ids,
        grown.row_ids,
        grown.ancestor_mask.view(torch.uint8),
        len(row_slots),
        depth,
        expansion.candidate_begins[depth - 1],
        first_place,
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
