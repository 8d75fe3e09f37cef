"""Owns the Triton kernel that grows draft trees."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.triton.score_order import LEAST, in_order


class Slots(NamedTuple):
    """Pointers to the slot of each tree, to whether it was held (-1), and to the slots' state."""

    ids: Any
    num_accepted: Any
    num_model: Any
    row_slots: Any
    walk_tokens: Any
    walk_parents: Any


class Drafted(NamedTuple):
    """Pointers to the children that the drafter found for the nodes of a depth, to the scores of
    these nodes, and to the candidates to expand (None: the most likely)."""

    tokens: Any
    logprobs: Any
    parent_scores: Any
    expanded: Any


class Growing(NamedTuple):
    """Pointers to the candidates of all depths; see GrowingTrees."""

    tokens: Any
    scores: Any
    places: Any


class Nodes(NamedTuple):
    """Pointers to the nodes that are expanded (see Frontier), and to the nodes that their parents
    see."""

    tokens: Any
    scores: Any
    parent_ids: Any
    row_ids: Any
    ancestor_mask: Any
    parent_ancestors: Any


class _Walk(NamedTuple):
    """Pointers to a slot's places in the walk; the places of a held slot are not changed."""

    tokens: Any
    parents: Any
    is_held: Any


class _Step(NamedTuple):
    """A tree at one depth.

    row_slot:        slot, among `num_slots`, whose rows say what may follow the tree's nodes
    first_candidate: the depth's first candidate, among all candidates of a tree
    first_place:     first place in the walk of the nodes that are expanded
    parents_place:   place of the first node of the previous depth
    """

    tree: Any
    row_slot: Any
    num_slots: Any
    first_candidate: Any
    first_place: Any
    parents_place: Any


class _Candidates(NamedTuple):
    """The candidates of a tree at one depth, [BLOCK]."""

    index: Any
    tokens: Any
    scores: Any
    order: Any


@triton.jit
def _walk_of(slots, slot, is_held, NUM_PLACES: tl.constexpr):
    first = slot * NUM_PLACES
    return _Walk(slots.walk_tokens + first, slots.walk_parents + first, is_held)


@triton.jit
def _load_candidates(
    drafted,
    tree,
    is_drafted,
    PARENTS: tl.constexpr,
    CHILDREN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A tree's candidates; token and score are -1 and -inf where nothing was drafted."""
    index = tl.arange(0, BLOCK)
    exists = index < PARENTS * CHILDREN
    child = tree * PARENTS * CHILDREN + index
    token = tl.load(drafted.tokens + child, mask=exists & is_drafted, other=-1)
    score = tl.load(drafted.logprobs + child, mask=exists & is_drafted, other=float("-inf"))
    parent = tree * PARENTS + index // CHILDREN
    score += tl.load(drafted.parent_scores + parent, mask=exists, other=0.0)
    return _Candidates(index, token, score, tl.where(exists, in_order(score), LEAST))


@triton.jit
def _expanded_at(expanded, candidates, rank, first_candidate):
    """The candidate that becomes the node with this rank."""
    if expanded is None:
        is_best = candidates.order == tl.max(candidates.order, 0)
        at = tl.min(tl.where(is_best, candidates.index, candidates.index.shape[0]), 0)
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
    """Store which nodes a node sees: of earlier depths those that its parent sees, and of its own
    depth only itself."""
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
    """Clear the places of a depth that have no node."""
    place = tl.arange(0, BLOCK)
    is_cleared = (place < num_places) & (walk.is_held == 0)
    tl.store(walk.tokens + first_place + place, -1, mask=is_cleared)


@triton.jit
def _expand(
    candidates,
    nodes,
    walk,
    expanded,
    step,
    PARENTS: tl.constexpr,
    CHILDREN: tl.constexpr,
    WIDTH: tl.constexpr,
    BEFORE: tl.constexpr,
    BLOCK_SEES: tl.constexpr,
):
    """Store the candidates that are expanded; returns each one's place in the walk, 0 for
    others."""
    index, tokens, scores, order = candidates
    place = tl.zeros_like(index)
    for rank in tl.static_range(WIDTH):
        left = _Candidates(index, tokens, scores, order)
        at = _expanded_at(expanded, left, rank, step.first_candidate)
        is_it, parent, here = index == at, at // CHILDREN, step.first_place + rank
        order = tl.where(is_it, LEAST, order)
        place = tl.where(is_it, here, place)
        token = tl.max(tl.where(is_it, tokens, LEAST), 0)
        score = tl.max(tl.where(is_it, scores, float("-inf")), 0)
        node, parent_id = step.tree * WIDTH + rank, step.tree * PARENTS + parent
        row_id = here.to(tl.int64) * step.num_slots + step.row_slot
        _store_node(nodes, node, token, score, parent_id, row_id)
        _store_place(walk, here, token, step.parents_place + parent)
        _store_path(nodes, node, parent_id, rank, BEFORE, WIDTH, BLOCK_SEES)
    return place


@triton.jit
def _store_candidates(growing, candidates, place, first, NUM: tl.constexpr):
    at = first + candidates.index
    exists = candidates.index < NUM
    tl.store(growing.tokens + at, candidates.tokens, mask=exists)
    tl.store(growing.scores + at, candidates.scores, mask=exists)
    tl.store(growing.places + at, place, mask=exists)


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
def grow_kernel(
    slots,
    drafted,
    growing,
    nodes,
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
    """Grow one tree. num_missing: places of the depth that get no node"""
    tree = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots.ids + tree)
    is_held = tl.load(slots.num_accepted + tree) < 0
    is_drafted = tl.load(slots.num_model + slot) >= depth
    candidates = _load_candidates(drafted, tree, is_drafted, PARENTS, CHILDREN, BLOCK)
    row_slot = tl.load(slots.row_slots + slot)
    walk = _walk_of(slots, slot, is_held, NUM_PLACES)
    step = _Step(tree, row_slot, num_slots, first_candidate, first_place, parents_place)
    place = _expand(
        candidates,
        nodes,
        walk,
        drafted.expanded,
        step,
        PARENTS,
        CHILDREN,
        WIDTH,
        BEFORE,
        BLOCK_SEES,
    )
    _clear_places(walk, first_place + WIDTH, num_missing, BLOCK_MISSING)
    first = tree * NUM_CANDIDATES + first_candidate
    _store_candidates(growing, candidates, place, first, PARENTS * CHILDREN)
