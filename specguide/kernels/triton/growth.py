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


@triton.jit
def _load_children(
    tokens,
    logprobs,
    parent_scores,
    tree,
    index,
    exists,
    is_drafted,
    PARENTS: tl.constexpr,
    CHILDREN: tl.constexpr,
):
    """Tokens and scores of a tree's candidates at one depth, -1 and -inf where there is none."""
    child = tree * PARENTS * CHILDREN + index
    token = tl.load(tokens + child, mask=is_drafted, other=-1)
    score = tl.load(logprobs + child, mask=is_drafted, other=float("-inf"))
    return token, score + tl.load(
        parent_scores + tree * PARENTS + index // CHILDREN, mask=exists, other=0.0
    )


@triton.jit
def _store_path(
    ancestor_mask,
    parent_ancestors,
    rank,
    BEFORE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A node sees what its parent sees, of the nodes before its level, and of its level itself."""
    node = tl.arange(0, BLOCK)
    inherited = tl.load(parent_ancestors + node, mask=node < BEFORE, other=0)
    is_seen = tl.where(node < BEFORE, inherited, (node == BEFORE + rank).to(tl.uint8))
    tl.store(ancestor_mask + node, is_seen, mask=node < BEFORE + WIDTH)


class _Level(NamedTuple):
    """Pointers to the nodes of a level, as a TreeLevel has them."""

    tokens: Any
    scores: Any
    parent_ids: Any
    row_ids: Any


class _Walk(NamedTuple):
    """Pointers to a slot's places in the walk; those of a slot that is held stay as they are."""

    tokens: Any
    parents: Any
    is_held: Any


@triton.jit
def _store_node(level, node, token, score, parent_id, row_id):
    tl.store(level.tokens + node, token)
    tl.store(level.scores + node, score)
    tl.store(level.parent_ids + node, parent_id)
    tl.store(level.row_ids + node, row_id)


@triton.jit
def _store_place(walk, place, token, parent_place):
    tl.store(walk.tokens + place, token, mask=walk.is_held == 0)
    tl.store(walk.parents + place, parent_place, mask=walk.is_held == 0)


@triton.jit
def _clear_places(walk, first_place, num_places, BLOCK: tl.constexpr):
    """The places of a level that no node takes."""
    place = tl.arange(0, BLOCK)
    is_cleared = (place < num_places) & (walk.is_held == 0)
    tl.store(walk.tokens + first_place + place, -1, mask=is_cleared)


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
    before,
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
    level_tokens,
    level_scores,
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
    index = tl.arange(0, BLOCK)
    exists = index < PARENTS * CHILDREN
    is_drafted = exists & (tl.load(num_model + slot) >= depth)
    token, score = _load_children(
        tokens, logprobs, parent_scores, tree, index, exists, is_drafted, PARENTS, CHILDREN
    )
    place = tl.zeros_like(index)
    key = tl.where(exists, in_order(score), LEAST)
    guide = tl.load(row_slots + slot)
    walk = _Walk(walk_tokens + slot * NUM_PLACES, walk_parents + slot * NUM_PLACES, is_held)
    level = _Level(level_tokens, level_scores, parent_ids, row_ids)
    for rank in tl.static_range(WIDTH):
        if expanded is None:
            at = tl.min(tl.where(key == tl.max(key, 0), index, BLOCK), 0)
        else:
            at = (tl.load(expanded + rank) - first_candidate).to(tl.int32)
        is_it, parent, here = index == at, at // CHILDREN, first_place + rank
        key = tl.where(is_it, LEAST, key)
        place = tl.where(is_it, here, place)
        one = tree * WIDTH + rank
        its_token = tl.max(tl.where(is_it, token, LEAST), 0)
        its_score = tl.max(tl.where(is_it, score, float("-inf")), 0)
        row_id = here.to(tl.int64) * num_slots + guide
        _store_node(level, one, its_token, its_score, tree * PARENTS + parent, row_id)
        _store_place(walk, here, its_token, parents_place + parent)
        _store_path(
            ancestor_mask + one * (BEFORE + WIDTH),
            before + (tree * PARENTS + parent) * BEFORE,
            rank,
            BEFORE,
            WIDTH,
            BLOCK_SEES,
        )
    _clear_places(walk, first_place + WIDTH, num_missing, BLOCK_MISSING)
    candidate = tree * NUM_CANDIDATES + first_candidate + index
    tl.store(candidate_tokens + candidate, token, mask=exists)
    tl.store(candidate_scores + candidate, score, mask=exists)
    tl.store(candidate_places + candidate, place, mask=exists)


def grow_trees(
    tokens: Tensor,
    logprobs: Tensor,
    level: Any,
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
    width, num_before = len(places), level.ancestor_mask.shape[2]
    first_place = expansion.stage_begins[depth]
    num_missing = expansion.stage_begins[depth + 1] - first_place - width if width else 0

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=tokens.device)

    grown = replace(
        level,
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
        level.scores,
        level.ancestor_mask.view(torch.uint8),
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
