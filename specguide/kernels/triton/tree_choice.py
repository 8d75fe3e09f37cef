"""Owns the Triton kernel that chooses the nodes of draft trees after these have grown.

Its twin is in `sampling.growth`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.drafts.tree_layout import TreeExpansion
from specguide.kernels.host_values import constant
from specguide.kernels.triton.growth_kernels import Growing
from specguide.kernels.triton.score_order import chosen, in_order


class _Nodes(NamedTuple):
    """Pointers to the nodes of all slots' trees (see SlotTrees), or of one tree."""

    tokens: Any
    parents: Any
    depths: Any
    places: Any


class _Chosen(NamedTuple):
    """A tree's candidates, [BLOCK]; only those that are verified are valid.

    index: place of the candidate, counted from the tree's first
    node:  the node that it becomes
    """

    index: Any
    is_chosen: Any
    node: Any
    token: Any
    depth: Any


class _Places(NamedTuple):
    """The places where the walk has the chosen nodes and their parents; a leaf is a node that was
    not expanded."""

    place: Any
    parent_place: Any
    leaf_place: Any
    is_leaf: Any


@triton.jit
def _nodes_of(trees, first):
    """The pointers to the nodes of the slot whose first node is `first`."""
    return _Nodes(
        trees.tokens + first, trees.parents + first, trees.depths + first, trees.places + first
    )


@triton.jit
def _is_chosen(
    fixed,
    scores,
    first,
    index,
    NUM_CANDIDATES: tl.constexpr,
    NUM: tl.constexpr,
):
    """Which candidates of a tree are verified: those that `fixed` points to; None: the NUM most
    likely."""
    exists = index < NUM_CANDIDATES
    if fixed is None:
        score = tl.load(scores + first + index, mask=exists, other=float("-inf"))
        is_chosen = chosen(in_order(score), exists, NUM)
    else:
        is_chosen = tl.load(fixed + index, mask=exists, other=0) != 0
    return is_chosen


@triton.jit
def _load_chosen(tokens, candidate_depths, first, index, is_chosen):
    """The chosen candidates of a tree. first: the tree's first candidate"""
    node = tl.cumsum(is_chosen.to(tl.int32), 0)
    token = tl.load(tokens + first + index, mask=is_chosen, other=-1)
    depth = tl.load(candidate_depths + index, mask=is_chosen, other=0)
    return _Chosen(index, is_chosen, node, token, depth)


@triton.jit
def _load_places(
    places, expanded_places, first, chosen, CHILDREN: tl.constexpr, FIRST_LEAF: tl.constexpr
):
    place = tl.load(places + first + chosen.index, mask=chosen.is_chosen, other=0)
    parent = expanded_places + chosen.index // CHILDREN
    parent_place = tl.load(parent, mask=chosen.is_chosen, other=0).to(tl.int32)
    is_leaf = place == 0
    leaf_place = FIRST_LEAF - 1 + chosen.node
    return _Places(tl.where(is_leaf, leaf_place, place), parent_place, leaf_place, is_leaf)


@triton.jit
def _find_parents(node_at, parent_of, chosen, places):
    """Each node's parent, found by comparing their places; also stored for `_store_paths`."""
    tl.store(node_at + places.place, chosen.node, mask=chosen.is_chosen)
    tl.debug_barrier()
    has_parent = chosen.is_chosen & (places.parent_place > 0)
    parent = tl.load(node_at + places.parent_place, mask=has_parent, other=0)
    tl.store(parent_of + chosen.node, parent, mask=chosen.is_chosen)
    return parent


@triton.jit
def _store_nodes(nodes, chosen, parent, place, is_told):
    tl.store(nodes.tokens + chosen.node, chosen.token, mask=is_told)
    tl.store(nodes.parents + chosen.node, parent.to(tl.int64), mask=is_told)
    tl.store(nodes.depths + chosen.node, chosen.depth, mask=is_told)
    tl.store(nodes.places + chosen.node, place.to(tl.int64), mask=is_told)


@triton.jit
def _store_leaves(tokens, parents, chosen, places, is_told):
    """Write the nodes that were not expanded into the walk."""
    token = tl.where(places.is_leaf, chosen.token, -1)
    tl.store(tokens + places.leaf_place, token, mask=is_told)
    tl.store(parents + places.leaf_place, places.parent_place, mask=is_told)


@triton.jit
def _clear(tokens, first, end, is_held, BLOCK: tl.constexpr):
    """Clear the tokens first … end - 1, at most BLOCK, of a slot that is not held."""
    beyond = first + tl.arange(0, BLOCK)
    tl.store(tokens + beyond, -1, mask=(beyond < end) & (is_held == 0))


@triton.jit
def _store_paths(
    ancestor_mask,
    parent_of,
    is_held,
    NUM_NODES: tl.constexpr,
    NUM_SLOT_NODES: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store which nodes each node sees: itself and all on its path, from parent to parent."""
    seeing = tl.arange(0, BLOCK)
    seen, on_path = seeing[None, :], seeing
    is_seen = seeing[:, None] == seen
    for _ in range(DEPTH):
        on_path = tl.load(parent_of + on_path, mask=(on_path > 0) & (on_path < NUM_NODES), other=0)
        is_seen = is_seen | (on_path[:, None] == seen)
    tl.store(
        ancestor_mask + seeing[:, None] * NUM_SLOT_NODES + seen,
        is_seen.to(tl.uint8),
        mask=(seeing < NUM_NODES)[:, None] & (seen < NUM_NODES) & (is_held == 0),
    )


@triton.jit
def _finish_kernel(
    candidates,
    slots,
    num_accepted,
    fixed,
    candidate_depths,
    expanded_places,
    trees,
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
    """Choose the nodes of one tree. `fixed` says which candidates are verified; None: the most
    likely."""
    tree = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + tree)
    is_held = tl.load(num_accepted + tree) < 0
    index, first = tl.arange(0, BLOCK), tree * NUM_CANDIDATES
    is_chosen = _is_chosen(fixed, candidates.scores, first, index, NUM_CANDIDATES, NUM_NODES - 1)
    taken = _load_chosen(candidates.tokens, candidate_depths, first, index, is_chosen)
    found = _load_places(candidates.places, expanded_places, first, taken, CHILDREN, FIRST_LEAF)
    parent_of += tree * NUM_NODES
    parent = _find_parents(node_at + tree * NUM_PLACES, parent_of, taken, found)
    is_told = is_chosen & (is_held == 0)
    nodes = _nodes_of(trees, slot * NUM_SLOT_NODES)
    _store_nodes(nodes, taken, parent, found.place, is_told)
    walk = walk_tokens + slot * NUM_PLACES
    _clear(nodes.tokens, NUM_NODES, NUM_SLOT_NODES, is_held, BLOCK_SLOT_NODES)
    _clear(walk, FIRST_LEAF - 1 + NUM_NODES, NUM_PLACES, is_held, BLOCK_SLOT_NODES)
    _store_leaves(walk, walk_parents + slot * NUM_PLACES, taken, found, is_told)
    tl.debug_barrier()
    ancestor_mask += slot * NUM_SLOT_NODES * NUM_SLOT_NODES
    _store_paths(ancestor_mask, parent_of, is_held, NUM_NODES, NUM_SLOT_NODES, DEPTH, BLOCK_NODES)


def finish_trees(
    growing: Any, expansion: TreeExpansion, trees: Any, *, walk_tokens: Tensor, walk_parents: Tensor
) -> None:
    """See sampling.growth.finish_trees."""
    num_trees = len(growing.tokens)
    device = growing.tokens.device
    num_nodes = expansion.num_nodes
    num_slot_nodes = trees.tokens.shape[1]
    node_at = torch.empty(num_trees, expansion.num_places, dtype=torch.int32, device=device)
    parent_of = torch.empty(num_trees, num_nodes, dtype=torch.int32, device=device)
    fixed = (
        None
        if expansion.fixed is None
        else constant(expansion.fixed.is_chosen(expansion.num_candidates), device)
    )
    _finish_kernel[(num_trees,)](
        Growing(growing.tokens, growing.scores, growing.places),
        growing.slots,
        growing.num_accepted,
        fixed,
        constant(expansion.candidate_depths, device),
        constant(expansion.expanded_places, device),
        _Nodes(trees.tokens, trees.parents, trees.depths, trees.places),
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
