"""Owns the Triton kernels of the bookkeeping around a pass over draft trees, each in one launch
instead of dozens.

Their twins are with those whose work it is, in `cache.tensors` and `sampling.accept`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.chain import cache_slot


@triton.jit
def _accept_kernel(
    target_tokens,
    slots,
    start,
    node_tokens,
    node_parents,
    node_places,
    tokens,
    accepted_path,
    late,
    active,
    lengths,
    max_lens,
    end_ids,
    slot_num_accepted,
    num_accepted,
    path,
    start_stride,
    NUM_NODES: tl.constexpr,
    NUM_SLOT_NODES: tl.constexpr,
    NUM_PLACES: tl.constexpr,
    DEPTH: tl.constexpr,
    MOST_DEPTH: tl.constexpr,
    NUM_END_IDS: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
):
    """One tree; a warp holds its nodes and end tokens."""
    tree = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + tree)
    node = tl.arange(0, BLOCK_NODES)
    is_node = node < NUM_NODES
    said_after = tl.load(target_tokens + tree * NUM_NODES + node, mask=is_node, other=-1)
    draft = tl.load(node_tokens + slot * NUM_SLOT_NODES + node, mask=is_node & (node > 0), other=-1)
    parent = tl.load(node_parents + slot * NUM_SLOT_NODES + node, mask=is_node, other=-1)
    ends = tl.load(end_ids + slot * NUM_END_IDS + tl.arange(0, NUM_END_IDS))
    is_active = tl.load(active + slot) != 0
    is_held = (tl.load(late + slot) != 0) | (is_active == 0)
    tl.store(path + tree * (DEPTH + 1), tl.where(is_held, -1, 0).to(tl.int64))
    said = tl.sum(tl.where(node == 0, said_after, 0), 0)
    last, num_matches, has_ended = said * 0, said * 0, tl.max((ends == said).to(tl.int32), 0)
    goes_on = is_held == 0
    for step in tl.static_range(DEPTH):
        is_next = (parent == last) & (draft == said) & (draft >= 0)
        child = tl.min(tl.where(is_next, node, BLOCK_NODES), 0)
        goes_on = goes_on & (child < BLOCK_NODES)
        tl.store(path + tree * (DEPTH + 1) + step + 1, tl.where(goes_on, child, -1).to(tl.int64))
        place = tl.load(node_places + slot * NUM_SLOT_NODES + child, mask=goes_on, other=-1)
        tl.store(accepted_path + slot * MOST_DEPTH + step, place.to(tl.int32), mask=is_held == 0)
        last = tl.where(goes_on, child, last)
        num_matches += goes_on.to(tl.int32)
        said = tl.sum(tl.where(node == last, said_after, 0), 0)
        has_ended = has_ended | (tl.max((ends == said).to(tl.int32), 0))
    tl.store(slot_num_accepted + slot, tl.where(is_held, -1, num_matches))
    tl.store(num_accepted + tree, tl.where(is_held, -1, num_matches))
    tl.store(tokens + slot * NUM_PLACES, said, mask=is_held == 0)
    length = tl.load(start + tree * start_stride) + num_matches + 1
    tl.store(lengths + slot, length, mask=is_held == 0)
    is_over = (has_ended != 0) | (length + 1 >= tl.load(max_lens + slot))
    tl.store(active + slot, is_active & (is_over == 0), mask=is_held == 0)


def accept_trees(
    target_tokens: Tensor,
    slots: Tensor,
    start: Tensor,
    trees: Any,
    depth: int,
    *,
    tokens: Tensor,
    accepted_path: Tensor,
    late: Tensor,
    active: Tensor,
    lengths: Tensor,
    max_lens: Tensor,
    end_ids: Tensor,
    slot_num_accepted: Tensor,
) -> tuple[Tensor, Tensor]:
    """See sampling.accept.accept_trees."""
    num_trees, num_nodes = target_tokens.shape
    num_accepted = torch.empty(num_trees, dtype=torch.int32, device=target_tokens.device)
    path = torch.empty(num_trees, depth + 1, dtype=torch.int64, device=target_tokens.device)
    _accept_kernel[(num_trees,)](
        target_tokens,
        slots,
        start,
        trees.tokens,
        trees.parents,
        trees.places,
        tokens,
        accepted_path,
        late,
        active.view(torch.uint8),
        lengths,
        max_lens,
        end_ids,
        slot_num_accepted,
        num_accepted,
        path,
        start.stride(0),
        NUM_NODES=num_nodes,
        NUM_SLOT_NODES=trees.tokens.shape[1],
        NUM_PLACES=tokens.shape[1],
        DEPTH=depth,
        MOST_DEPTH=accepted_path.shape[1],
        NUM_END_IDS=end_ids.shape[1],
        BLOCK_NODES=triton.next_power_of_2(num_nodes),
        num_warps=1,
    )
    return num_accepted, path


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
    """One tree: its tokens, where they stand and where they are stored."""
    tree = tl.program_id(0).to(tl.int64)
    first = tl.load(start + tree * start_stride) + offset
    node = tl.arange(0, BLOCK)
    own = node - (NUM_NODES - NUM_OWN)
    is_node, is_own = node < NUM_NODES, (node < NUM_NODES) & (own >= 0)
    position = first + tl.load(depths + tree * depths_stride + node, mask=is_node, other=0)
    tl.store(positions + tree * NUM_NODES + node, position, mask=is_node)
    tl.store(own_positions + tree * NUM_OWN + own, position, mask=is_own)
    token = tl.load(tokens + tree * token_stride + own * node_stride, mask=is_own, other=0)
    tl.store(input_ids + tree * NUM_OWN + own, tl.maximum(token, 0).to(tl.int64), mask=is_own)
    stored = cache_slot(block_table + tree * NUM_PAGES, first + node, is_own, NUM_PAGES, PAGE_SIZE)
    tl.store(slot_mapping + tree * NUM_OWN + own, stored, mask=is_own)
    tl.store(seq_lens + tree, (first + NUM_NODES).to(tl.int32))


def place_trees(
    tokens: Tensor,
    start: Tensor,
    depths: Tensor,
    block_table: Tensor,
    page_size: int,
    offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See cache.tensors.place_trees."""
    (num_trees, num_own), num_nodes = tokens.shape, depths.shape[-1]
    input_ids, own_positions, slot_mapping = (
        torch.empty(num_trees * num_own, dtype=torch.int64, device=start.device) for _ in range(3)
    )
    seq_lens = torch.empty(num_trees, dtype=torch.int32, device=start.device)
    positions = torch.empty(num_trees, num_nodes, dtype=torch.int64, device=start.device)
    _place_kernel[(num_trees,)](
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
        depths.stride(0) if depths.dim() > 1 else 0,
        offset,
        NUM_OWN=num_own,
        NUM_NODES=num_nodes,
        BLOCK=triton.next_power_of_2(num_nodes),
        NUM_PAGES=block_table.shape[1],
        PAGE_SIZE=page_size,
        num_warps=1,
    )
    return input_ids, own_positions, slot_mapping, seq_lens, positions


@triton.jit
def _move_kernel(
    memory,
    nodes,
    start,
    block_table,
    layer_stride,
    nodes_stride,
    start_stride,
    DEPTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_PAGES: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
):
    """One tree's keys, or values, of one layer. A thread has the same columns of all of them: none
    overtakes."""
    tree, layer = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    cells, first = memory + layer * layer_stride + column, tl.load(start + tree * start_stride)
    for index in range(DEPTH):
        node = tl.load(nodes + tree * nodes_stride + index)
        source = cache_slot(
            block_table + tree * NUM_PAGES, first + node, node >= 0, NUM_PAGES, PAGE_SIZE
        )
        destination = cache_slot(
            block_table + tree * NUM_PAGES, first + 1 + index, node >= 0, NUM_PAGES, PAGE_SIZE
        )
        is_moved = (column < SIZE) & (source >= 0) & (destination >= 0) & (source != destination)
        values = tl.load(cells + source * SIZE, mask=is_moved, other=0)
        tl.store(cells + destination * SIZE, values, mask=is_moved)


def move_keys(memory: Tensor, nodes: Tensor, start: Tensor, block_table: Tensor) -> None:
    """See cache.tensors.move_keys."""
    layers = memory.view(-1, *memory.shape[2:])
    size = memory.shape[4] * memory.shape[5]
    block = min(triton.next_power_of_2(size), 1024)
    _move_kernel[(len(nodes), len(layers), triton.cdiv(size, block))](
        layers,
        nodes,
        start,
        block_table,
        layers.stride(0),
        nodes.stride(0),
        start.stride(0),
        DEPTH=nodes.shape[1],
        SIZE=size,
        BLOCK=block,
        NUM_PAGES=block_table.shape[1],
        PAGE_SIZE=memory.shape[3],
    )
