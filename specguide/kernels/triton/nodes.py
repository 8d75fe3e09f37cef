"""Owns the Triton kernels of the bookkeeping around a pass over the nodes of each slot. Each does
in one launch what took a dozen or more.

Their twins are in `cache.tensors` and `sampling.accept`, the owners of that state. In a chain,
where each node follows the one before, the tensors of trees are None, and the kernel is compiled
without them.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def cache_slot(pages, position, exists, NUM_PAGES: tl.constexpr, PAGE_SIZE: tl.constexpr):
    """The cache slot of the key at a position, -1 if it has no page. pages: pointer to the
    sequence's first page id"""
    index = position // PAGE_SIZE
    page = tl.load(pages + index, mask=exists & (index < NUM_PAGES), other=-1)
    return tl.where(page >= 0, page.to(tl.int64) * PAGE_SIZE + position % PAGE_SIZE, -1)


@triton.jit(do_not_specialize=["offset"])
def _place_kernel(
    tokens,
    start,
    depths,
    block_table,
    input_ids,
    own_positions,
    slot_mapping,
    seq_lens,
    positions,
    token_stride,
    node_stride,
    start_stride,
    depths_stride,
    offset,
    NUM_OWN: tl.constexpr,
    NUM_NODES: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_PAGES: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
):
    """Place the nodes of one request: write their tokens, positions and slots."""
    request = tl.program_id(0).to(tl.int64)
    first = tl.load(start + request * start_stride) + offset
    node = tl.arange(0, BLOCK)
    own = node - (NUM_NODES - NUM_OWN)
    is_node, is_own = node < NUM_NODES, (node < NUM_NODES) & (own >= 0)
    position = first + node
    if depths is not None:
        depth = tl.load(depths + request * depths_stride + node, mask=is_node, other=0)
        position = first + depth
        tl.store(positions + request * NUM_NODES + node, position, mask=is_node)
    tl.store(own_positions + request * NUM_OWN + own, position, mask=is_own)
    token = tl.load(tokens + request * token_stride + own * node_stride, mask=is_own, other=0)
    tl.store(input_ids + request * NUM_OWN + own, tl.maximum(token, 0).to(tl.int64), mask=is_own)
    pages = block_table + request * NUM_PAGES
    stored = cache_slot(pages, first + node, is_own, NUM_PAGES, PAGE_SIZE)
    tl.store(slot_mapping + request * NUM_OWN + own, stored, mask=is_own)
    tl.store(seq_lens + request, (first + NUM_NODES).to(tl.int32))


def place_nodes(
    tokens: Tensor,
    start: Tensor,
    block_table: Tensor,
    page_size: int,
    offset: int = 0,
    depths: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """See cache.tensors.place_nodes."""
    num_requests, num_own = tokens.shape
    input_ids, own_positions, slot_mapping = (
        torch.empty(num_requests * num_own, dtype=torch.int64, device=start.device)
        for _ in range(3)
    )
    seq_lens = torch.empty(num_requests, dtype=torch.int32, device=start.device)
    num_nodes, depths_stride, positions = num_own, 0, None
    if depths is not None:
        num_nodes = depths.shape[-1]
        depths_stride = depths.stride(0) if depths.dim() > 1 else 0
        positions = torch.empty(num_requests, num_nodes, dtype=torch.int64, device=start.device)
    _place_kernel[(num_requests,)](
        tokens,
        start,
        depths,
        block_table,
        input_ids,
        own_positions,
        slot_mapping,
        seq_lens,
        positions,
        tokens.stride(0),
        tokens.stride(1),
        start.stride(0),
        depths_stride,
        offset,
        NUM_OWN=num_own,
        NUM_NODES=num_nodes,
        BLOCK=triton.next_power_of_2(num_nodes),
        NUM_PAGES=block_table.shape[1],
        PAGE_SIZE=page_size,
        num_warps=1,
    )
    return input_ids, own_positions, slot_mapping, seq_lens, positions


class _Trees(NamedTuple):
    """Pointers to the nodes of trees, to the places of the nodes that were accepted last, and to
    the requests' paths: those of the first slot and request, or of one."""

    tokens: Any
    parents: Any
    places: Any
    accepted_path: Any
    path: Any


@triton.jit
def _tree_of(trees, slot, request, NUM_TREE_NODES, DEPTH, MOST_DEPTH):
    """The pointers for one request."""
    first = slot * NUM_TREE_NODES
    return _Trees(
        trees.tokens + first,
        trees.parents + first,
        trees.places + first,
        trees.accepted_path + slot * MOST_DEPTH,
        trees.path + request * (DEPTH + 1),
    )


@triton.jit
def _follow_path(
    tokens_after, drafts, ends, node, NUM_NODES: tl.constexpr, BLOCK_NODES: tl.constexpr
):
    """For a chain: how many drafts match, which token the target chooses behind them, and whether a
    new token ends the request. drafts: pointer to the slot's drafts"""
    draft = tl.load(drafts + node, mask=node + 1 < NUM_NODES, other=-1)
    num_matches = tl.min(tl.where((tokens_after == draft) & (draft >= 0), BLOCK_NODES, node), 0)
    next_token = tl.sum(tl.where(node == num_matches, tokens_after, 0), 0)
    is_end = (tokens_after[:, None] == ends[None, :]) & (node <= num_matches)[:, None]
    return num_matches, next_token, tl.max(tl.max(is_end.to(tl.int32), 1), 0)


@triton.jit
def _follow_tree(
    tokens_after,
    tree,
    ends,
    node,
    is_held,
    NUM_NODES: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
):
    """Like `_follow_path`, for a tree; also writes the nodes of the path and their places."""
    draft = tl.load(tree.tokens + node, mask=(node < NUM_NODES) & (node > 0), other=-1)
    parent = tl.load(tree.parents + node, mask=node < NUM_NODES, other=-1)
    tl.store(tree.path, tl.where(is_held, -1, 0).to(tl.int64))
    next_token = tl.sum(tl.where(node == 0, tokens_after, 0), 0)
    last, num_matches = next_token * 0, next_token * 0
    has_ended = tl.max((ends == next_token).to(tl.int32), 0)
    goes_on = is_held == 0
    for step in tl.static_range(DEPTH):
        is_next = (parent == last) & (draft == next_token) & (draft >= 0)
        child = tl.min(tl.where(is_next, node, BLOCK_NODES), 0)
        goes_on = goes_on & (child < BLOCK_NODES)
        tl.store(tree.path + step + 1, tl.where(goes_on, child, -1).to(tl.int64))
        place = tl.load(tree.places + child, mask=goes_on, other=-1)
        tl.store(tree.accepted_path + step, place.to(tl.int32), mask=is_held == 0)
        last = tl.where(goes_on, child, last)
        num_matches += goes_on.to(tl.int32)
        next_token = tl.sum(tl.where(node == last, tokens_after, 0), 0)
        has_ended = has_ended | (tl.max((ends == next_token).to(tl.int32), 0))
    return num_matches, next_token, has_ended


@triton.jit
def _store_length(state, slot, length, is_active, has_ended, is_held):
    """Store a slot's length, and whether its request goes on."""
    tl.store(state.lengths + slot, length, mask=is_held == 0)
    is_over = (has_ended != 0) | (length + 1 >= tl.load(state.max_lens + slot))
    tl.store(state.active + slot, is_active & (is_over == 0), mask=is_held == 0)


@triton.jit
def _accept_kernel(
    target_tokens,
    slots,
    start,
    state,
    trees,
    num_accepted,
    start_stride,
    NUM_NODES: tl.constexpr,
    NUM_TREE_NODES: tl.constexpr,
    NUM_PLACES: tl.constexpr,
    DEPTH: tl.constexpr,
    MOST_DEPTH: tl.constexpr,
    NUM_END_IDS: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
):
    """Accept the drafts of one request; a single warp holds its nodes and end tokens. `trees` is
    None for a chain."""
    request = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + request)
    node = tl.arange(0, BLOCK_NODES)
    said = target_tokens + request * NUM_NODES + node
    tokens_after = tl.load(said, mask=node < NUM_NODES, other=-1)
    ends = tl.load(state.end_ids + slot * NUM_END_IDS + tl.arange(0, NUM_END_IDS))
    is_active = tl.load(state.active + slot) != 0
    is_held = (tl.load(state.late + slot) != 0) | (is_active == 0)
    tokens = state.tokens + slot * NUM_PLACES
    if trees is None:
        num_matches, next_token, has_ended = _follow_path(
            tokens_after, tokens + 1, ends, node, NUM_NODES, BLOCK_NODES
        )
    else:
        tree = _tree_of(trees, slot, request, NUM_TREE_NODES, DEPTH, MOST_DEPTH)
        num_matches, next_token, has_ended = _follow_tree(
            tokens_after, tree, ends, node, is_held, NUM_NODES, DEPTH, BLOCK_NODES
        )
    tl.store(state.num_accepted + slot, tl.where(is_held, -1, num_matches))
    tl.store(num_accepted + request, tl.where(is_held, -1, num_matches))
    tl.store(tokens, next_token, mask=is_held == 0)
    length = tl.load(start + request * start_stride) + num_matches + 1
    _store_length(state, slot, length, is_active, has_ended, is_held)


def accept_drafts(
    target_tokens: Tensor, slots: Tensor, start: Tensor, state: Any, branches: Any = None
) -> tuple[Tensor, Tensor | None]:
    """See sampling.accept.accept_drafts."""
    num_requests, num_nodes = target_tokens.shape
    num_accepted = torch.empty(num_requests, dtype=torch.int32, device=target_tokens.device)
    pointers, path = None, None
    num_tree_nodes = depth = most_depth = 0
    if branches is not None:
        trees, depth, accepted_path = branches
        num_tree_nodes, most_depth = trees.tokens.shape[1], accepted_path.shape[1]
        path = torch.empty(num_requests, depth + 1, dtype=torch.int64, device=num_accepted.device)
        pointers = _Trees(trees.tokens, trees.parents, trees.places, accepted_path, path)
    _accept_kernel[(num_requests,)](
        target_tokens,
        slots,
        start,
        state._replace(active=state.active.view(torch.uint8)),
        pointers,
        num_accepted,
        start.stride(0),
        NUM_NODES=num_nodes,
        NUM_TREE_NODES=num_tree_nodes,
        NUM_PLACES=state.tokens.shape[1],
        DEPTH=depth,
        MOST_DEPTH=most_depth,
        NUM_END_IDS=state.end_ids.shape[1],
        BLOCK_NODES=triton.next_power_of_2(num_nodes),
        num_warps=1,
    )
    return num_accepted, path
