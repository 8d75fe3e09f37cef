"""Owns the Triton kernels in which draft trees grow, one launch for each depth and one at the end.

Their twins are in `sampling.growth`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.host_values import constant
from specguide.tree_layout import TreeExpansion

_LEAST = tl.constexpr(-(2**31))


@triton.jit
def _in_order(score):
    """Integers in the order of scores, all of them above _LEAST."""
    bits = score.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


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
    key = tl.where(exists, _in_order(score), _LEAST)
    guide = tl.load(row_slots + slot)
    for rank in tl.static_range(WIDTH):
        if expanded is None:
            at = tl.min(tl.where(key == tl.max(key, 0), index, BLOCK), 0)
        else:
            at = (tl.load(expanded + rank) - first_candidate).to(tl.int32)
        is_it, parent, here = index == at, at // CHILDREN, first_place + rank
        key = tl.where(is_it, _LEAST, key)
        place = tl.where(is_it, here, place)
        one = tree * WIDTH + rank
        its_token = tl.max(tl.where(is_it, token, _LEAST), 0)
        tl.store(level_tokens + one, its_token)
        tl.store(level_scores + one, tl.max(tl.where(is_it, score, float("-inf")), 0))
        tl.store(parent_ids + one, tree * PARENTS + parent)
        tl.store(row_ids + one, here.to(tl.int64) * num_slots + guide)
        tl.store(walk_tokens + slot * NUM_PLACES + here, its_token, mask=is_held == 0)
        tl.store(walk_parents + slot * NUM_PLACES + here, parents_place + parent, mask=is_held == 0)
        _store_path(
            ancestor_mask + one * (BEFORE + WIDTH),
            before + (tree * PARENTS + parent) * BEFORE,
            rank,
            BEFORE,
            WIDTH,
            BLOCK_SEES,
        )
    missing = tl.arange(0, BLOCK_MISSING)
    tl.store(
        walk_tokens + slot * NUM_PLACES + first_place + WIDTH + missing,
        -1,
        mask=(missing < num_missing) & (is_held == 0),
    )
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
    width, num_before, first_place = (
        len(places),
        level.ancestor_mask.shape[2],
        expansion.stage_begins[depth],
    )
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


@triton.jit
def _chosen(key, exists, NUM: tl.constexpr):
    """Which are the NUM with the greatest keys; of equals the first ones."""
    least = (
        tl.sum(tl.zeros_like(key), 0).to(tl.int64) + _LEAST
    )  # the greatest that so many keys reach, bit by bit
    for bit in range(32):
        higher = least + (tl.full((), 1, tl.int64) << (31 - bit))
        num = tl.sum((exists & (key.to(tl.int64) >= higher)).to(tl.int32), 0)
        least = tl.where(num >= NUM, higher, least)
    is_above, is_equal = exists & (key.to(tl.int64) > least), exists & (key.to(tl.int64) == least)
    num_wanted = NUM - tl.sum(is_above.to(tl.int32), 0)
    return is_above | (is_equal & (tl.cumsum(is_equal.to(tl.int32), 0) <= num_wanted))


@triton.jit
def _store_paths(
    ancestor_mask,
    parent_of,
    slot,
    is_held,
    NUM_NODES: tl.constexpr,
    NUM_SLOT_NODES: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each node sees itself and all on the path to it, from parent to parent."""
    seeing = tl.arange(0, BLOCK)
    seen, on_path = seeing[None, :], seeing
    is_seen = seeing[:, None] == seen
    for _ in range(DEPTH):
        on_path = tl.load(parent_of + on_path, mask=(on_path > 0) & (on_path < NUM_NODES), other=0)
        is_seen = is_seen | (on_path[:, None] == seen)
    tl.store(
        ancestor_mask + (slot * NUM_SLOT_NODES + seeing[:, None]) * NUM_SLOT_NODES + seen,
        is_seen.to(tl.uint8),
        mask=(seeing < NUM_NODES)[:, None] & (seen < NUM_NODES) & (is_held == 0),
    )


@triton.jit
def _finish_kernel(
    candidate_tokens,
    candidate_scores,
    candidate_places,
    slots,
    num_accepted,
    fixed,
    candidate_depths,
    expanded_places,
    tokens,
    parents,
    depths,
    places,
    ancestor_mask,
    walk_tokens,
    walk_parents,
    node_at,
    parent_of,
    CHILDREN: tl.constexpr,
    NUM_CANDIDATES: tl.constexpr,
    NUM_NODES: tl.constexpr,
    NUM_SLOT_NODES: tl.constexpr,
    NUM_PLACES: tl.constexpr,
    FIRST_LEAF: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
    BLOCK_SLOT_NODES: tl.constexpr,
):
    """One tree. `fixed` says which candidates are verified; None: the likeliest."""
    tree = tl.program_id(0).to(tl.int64)
    slot, is_held = tl.load(slots + tree), tl.load(num_accepted + tree) < 0
    index = tl.arange(0, BLOCK)
    exists, candidate = index < NUM_CANDIDATES, tree * NUM_CANDIDATES + index
    if fixed is None:
        score = tl.load(candidate_scores + candidate, mask=exists, other=float("-inf"))
        is_chosen = _chosen(_in_order(score), exists, NUM_NODES - 1)
    else:
        is_chosen = tl.load(fixed + index, mask=exists, other=0) != 0
    node = tl.cumsum(is_chosen.to(tl.int32), 0)
    token = tl.load(candidate_tokens + candidate, mask=is_chosen, other=-1)
    place = tl.load(candidate_places + candidate, mask=is_chosen, other=0)
    depth = tl.load(candidate_depths + index, mask=is_chosen, other=0)
    parent_place = tl.load(expanded_places + index // CHILDREN, mask=is_chosen, other=0).to(
        tl.int32
    )
    is_leaf = place == 0
    leaf_place = FIRST_LEAF - 1 + node
    place = tl.where(is_leaf, leaf_place, place)
    tl.store(node_at + tree * NUM_PLACES + place, node, mask=is_chosen)
    tl.debug_barrier()
    parent = tl.load(
        node_at + tree * NUM_PLACES + parent_place, mask=is_chosen & (parent_place > 0), other=0
    )
    tl.store(parent_of + tree * NUM_NODES + node, parent, mask=is_chosen)
    is_told = is_chosen & (is_held == 0)
    tl.store(tokens + slot * NUM_SLOT_NODES + node, token, mask=is_told)
    tl.store(parents + slot * NUM_SLOT_NODES + node, parent.to(tl.int64), mask=is_told)
    tl.store(depths + slot * NUM_SLOT_NODES + node, depth, mask=is_told)
    tl.store(places + slot * NUM_SLOT_NODES + node, place.to(tl.int64), mask=is_told)
    beyond = NUM_NODES + tl.arange(0, BLOCK_SLOT_NODES)
    tl.store(
        tokens + slot * NUM_SLOT_NODES + beyond, -1, mask=(beyond < NUM_SLOT_NODES) & (is_held == 0)
    )
    tl.store(
        walk_tokens + slot * NUM_PLACES + FIRST_LEAF - 1 + beyond,
        -1,
        mask=(FIRST_LEAF - 1 + beyond < NUM_PLACES) & (is_held == 0),
    )
    tl.store(
        walk_tokens + slot * NUM_PLACES + leaf_place, tl.where(is_leaf, token, -1), mask=is_told
    )
    tl.store(walk_parents + slot * NUM_PLACES + leaf_place, parent_place, mask=is_told)
    tl.debug_barrier()
    _store_paths(
        ancestor_mask,
        parent_of + tree * NUM_NODES,
        slot,
        is_held,
        NUM_NODES,
        NUM_SLOT_NODES,
        DEPTH,
        BLOCK_NODES,
    )


def finish_trees(
    growing: Any, expansion: TreeExpansion, trees: Any, *, walk_tokens: Tensor, walk_parents: Tensor
) -> None:
    """See sampling.growth.finish_trees."""
    num_trees, device, num_nodes = len(growing.tokens), growing.tokens.device, expansion.num_nodes
    num_slot_nodes = trees.tokens.shape[1]
    node_at = torch.empty(num_trees, expansion.num_places, dtype=torch.int32, device=device)
    parent_of = torch.empty(num_trees, num_nodes, dtype=torch.int32, device=device)
    fixed = (
        None
        if expansion.fixed is None
        else constant(expansion.fixed.is_chosen(expansion.num_candidates), device)
    )
    _finish_kernel[(num_trees,)](
        growing.tokens,
        growing.scores,
        growing.places,
        growing.slots,
        growing.num_accepted,
        fixed,
        constant(expansion.candidate_depths, device),
        constant(expansion.expanded_places, device),
        trees.tokens,
        trees.parents,
        trees.depths,
        trees.places,
        trees.ancestor_mask.view(torch.uint8),
        walk_tokens,
        walk_parents,
        node_at,
        parent_of,
        CHILDREN=expansion.num_children,
        NUM_CANDIDATES=expansion.num_candidates,
        NUM_NODES=num_nodes,
        NUM_SLOT_NODES=num_slot_nodes,
        NUM_PLACES=expansion.num_places,
        FIRST_LEAF=expansion.stage_begins[-2],
        DEPTH=expansion.depth,
        BLOCK=triton.next_power_of_2(expansion.num_candidates),
        BLOCK_NODES=triton.next_power_of_2(num_nodes),
        BLOCK_SLOT_NODES=triton.next_power_of_2(num_slot_nodes),
        num_warps=4,
    )
