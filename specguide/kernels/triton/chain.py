"""Owns the Triton kernels of the bookkeeping around a pass over chains, each in one launch instead
of a dozen.

Their twins are with those whose work it is, in `cache.tensors` and `sampling.accept`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def cache_slot(pages, position, exists, NUM_PAGES: tl.constexpr, PAGE_SIZE: tl.constexpr):
    """Where the key at a position is stored, -1 where it has no page. pages: points to the
    sequence's first page id"""
    index = position // PAGE_SIZE
    page = tl.load(pages + index, mask=exists & (index < NUM_PAGES), other=-1)
    return tl.where(page >= 0, page.to(tl.int64) * PAGE_SIZE + position % PAGE_SIZE, -1)


@triton.jit(do_not_specialize=["offset"])
def _place_kernel(
    tokens,
    start,
    block_table,
    input_ids,
    position_ids,
    slot_mapping,
    seq_lens,
    token_stride,
    node_stride,
    start_stride,
    offset,
    NUM_NODES: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
    NUM_PAGES: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
):
    """One chain: its tokens, where they stand and where they are stored."""
    chain = tl.program_id(0).to(tl.int64)
    first = tl.load(start + chain * start_stride) + offset
    node = tl.arange(0, BLOCK_NODES)
    is_node, position = node < NUM_NODES, first + node
    token = tl.load(tokens + chain * token_stride + node * node_stride, mask=is_node, other=0)
    stored = cache_slot(block_table + chain * NUM_PAGES, position, is_node, NUM_PAGES, PAGE_SIZE)
    tl.store(input_ids + chain * NUM_NODES + node, tl.maximum(token, 0).to(tl.int64), mask=is_node)
    tl.store(position_ids + chain * NUM_NODES + node, position, mask=is_node)
    tl.store(slot_mapping + chain * NUM_NODES + node, stored, mask=is_node)
    tl.store(seq_lens + chain, (first + NUM_NODES).to(tl.int32))


def place_chains(
    tokens: Tensor, start: Tensor, block_table: Tensor, page_size: int, offset: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See cache.tensors.place_chains."""
    num_chains, num_nodes = tokens.shape
    input_ids, position_ids, slot_mapping = (
        torch.empty(num_chains * num_nodes, dtype=torch.int64, device=start.device)
        for _ in range(3)
    )
    seq_lens = torch.empty(num_chains, dtype=torch.int32, device=start.device)
    _place_kernel[(num_chains,)](
        tokens,
        start,
        block_table,
        input_ids,
        position_ids,
        slot_mapping,
        seq_lens,
        tokens.stride(0),
        tokens.stride(1),
        start.stride(0),
        offset,
        NUM_NODES=num_nodes,
        BLOCK_NODES=triton.next_power_of_2(num_nodes),
        NUM_PAGES=block_table.shape[1],
        PAGE_SIZE=page_size,
        num_warps=1,
    )
    return input_ids, position_ids, slot_mapping, seq_lens


@triton.jit
def _accept_kernel(
    target_tokens,
    slots,
    start,
    tokens,
    late,
    active,
    lengths,
    max_lens,
    end_ids,
    slot_num_accepted,
    num_accepted,
    start_stride,
    NUM_NODES: tl.constexpr,
    NUM_SLOT_NODES: tl.constexpr,
    NUM_END_IDS: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
):
    """One chain; a warp holds its nodes and end tokens."""
    chain = tl.program_id(0)
    slot = tl.load(slots + chain)
    node, end = tl.arange(0, BLOCK_NODES), tl.arange(0, NUM_END_IDS)
    said = tl.load(target_tokens + chain * NUM_NODES + node, mask=node < NUM_NODES, other=-1)
    draft = tl.load(tokens + slot * NUM_SLOT_NODES + node + 1, mask=node + 1 < NUM_NODES, other=-1)
    is_active = tl.load(active + slot) != 0
    is_held = (tl.load(late + slot) != 0) | (is_active == 0)
    num_matches = tl.min(tl.where((said == draft) & (draft >= 0), BLOCK_NODES, node), 0)
    tl.store(slot_num_accepted + slot, tl.where(is_held, -1, num_matches))
    tl.store(num_accepted + chain, tl.where(is_held, -1, num_matches))
    golden = tl.sum(tl.where(node == num_matches, said, 0), 0)
    tl.store(tokens + slot * NUM_SLOT_NODES, golden, mask=is_held == 0)
    length = tl.load(start + chain * start_stride) + num_matches + 1
    tl.store(lengths + slot, length, mask=is_held == 0)
    ends = tl.load(end_ids + slot * NUM_END_IDS + end)
    is_end = (said[:, None] == ends[None, :]) & (node <= num_matches)[:, None]
    has_ended = (tl.max(tl.max(is_end.to(tl.int32), 1), 0) != 0) | (
        length + 1 >= tl.load(max_lens + slot)
    )
    tl.store(active + slot, is_active & (has_ended == 0), mask=is_held == 0)


def accept_chains(
    target_tokens: Tensor,
    slots: Tensor,
    start: Tensor,
    *,
    tokens: Tensor,
    late: Tensor,
    active: Tensor,
    lengths: Tensor,
    max_lens: Tensor,
    end_ids: Tensor,
    slot_num_accepted: Tensor,
) -> Tensor:
    """See sampling.accept.accept_chains."""
    num_chains, num_nodes = target_tokens.shape
    num_accepted = torch.empty(num_chains, dtype=torch.int32, device=target_tokens.device)
    _accept_kernel[(num_chains,)](
        target_tokens,
        slots,
        start,
        tokens,
        late,
        active.view(torch.uint8),
        lengths,
        max_lens,
        end_ids,
        slot_num_accepted,
        num_accepted,
        start.stride(0),
        NUM_NODES=num_nodes,
        NUM_SLOT_NODES=tokens.shape[1],
        NUM_END_IDS=end_ids.shape[1],
        BLOCK_NODES=triton.next_power_of_2(num_nodes),
        num_warps=1,
    )
    return num_accepted


@triton.jit(do_not_specialize=["node", "num_chains"])
def _store_kernel(
    drafts,
    limits,
    num_accepted,
    slots,
    tokens,
    node,
    num_chains,
    NUM_SLOT_NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    chain = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = chain < num_chains
    is_held = tl.load(num_accepted + chain, mask=exists, other=-1) < 0
    slot = tl.load(slots + chain, mask=exists, other=0)
    is_within = exists & (tl.load(limits + slot, mask=exists, other=0) >= node)
    draft = tl.load(drafts + chain, mask=is_within, other=-1)
    tl.store(tokens + slot * NUM_SLOT_NODES + node, draft, mask=exists & (is_held == 0))


def store_drafts(
    drafts: Tensor, node: int, limits: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """See sampling.accept.store_drafts."""
    block = 128
    _store_kernel[(triton.cdiv(len(drafts), block),)](
        drafts,
        limits,
        num_accepted,
        slots,
        tokens,
        node,
        len(drafts),
        NUM_SLOT_NODES=tokens.shape[1],
        BLOCK=block,
    )


@triton.jit(do_not_specialize=["num_chains"])
def _append_kernel(
    drafts,
    chain_len,
    num_accepted,
    slots,
    tokens,
    num_chains,
    NUM_SLOT_NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    chain = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = chain < num_chains
    is_held = tl.load(num_accepted + chain, mask=exists, other=-1) < 0
    slot = tl.load(slots + chain, mask=exists, other=0)
    node = tl.load(chain_len + slot, mask=exists, other=NUM_SLOT_NODES) + 1
    draft = tl.load(drafts + chain, mask=exists, other=-1)
    tl.store(
        tokens + slot * NUM_SLOT_NODES + node,
        draft,
        mask=exists & (is_held == 0) & (node < NUM_SLOT_NODES),
    )


def append_drafts(
    drafts: Tensor, chain_len: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """See sampling.accept.append_drafts."""
    block = 128
    _append_kernel[(triton.cdiv(len(drafts), block),)](
        drafts,
        chain_len,
        num_accepted,
        slots,
        tokens,
        len(drafts),
        NUM_SLOT_NODES=tokens.shape[1],
        BLOCK=block,
    )
