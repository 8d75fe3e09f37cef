"""Owns the kernel, and its launch, that computes positions and cache slots for the tokens of prompt
chunks.

Its twin is in `cache.tensors`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.nodes import cache_slot

_BLOCK = 128


def place_prompts(
    bounds: Tensor, ends: Tensor, block_table: Tensor, page_size: int, num_tokens: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See cache.tensors.place_prompts."""
    position_ids, slot_mapping = (
        torch.empty(num_tokens, dtype=torch.int64, device=ends.device) for _ in range(2)
    )
    query_start_loc, seq_lens = (
        torch.empty(len(values), dtype=torch.int32, device=ends.device) for values in (bounds, ends)
    )
    _place_kernel[(max(1, triton.cdiv(num_tokens, _BLOCK)),)](
        bounds,
        ends,
        block_table,
        position_ids,
        slot_mapping,
        query_start_loc,
        seq_lens,
        num_tokens,
        len(ends),
        BLOCK=_BLOCK,
        BLOCK_CHUNKS=max(16, triton.next_power_of_2(len(ends))),
        NUM_PAGES=block_table.shape[1],
        PAGE_SIZE=page_size,
        num_warps=4,
    )
    return position_ids, slot_mapping, query_start_loc, seq_lens


@triton.jit(
    do_not_specialize=["num_tokens", "num_chunks"],
    do_not_specialize_on_alignment=["bounds", "ends"],  # parts of one tensor
)
def _place_kernel(
    bounds,
    ends,
    block_table,
    position_ids,
    slot_mapping,
    query_start_loc,
    seq_lens,
    num_tokens,
    num_chunks,
    BLOCK: tl.constexpr,
    BLOCK_CHUNKS: tl.constexpr,
    NUM_PAGES: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
):
    """Place some tokens; the first program also copies where chunks begin and end."""
    chunk = tl.arange(0, BLOCK_CHUNKS)
    is_chunk = chunk < num_chunks
    behind = tl.load(bounds + 1 + chunk, mask=is_chunk, other=2**62)
    if tl.program_id(0) == 0:
        tl.store(query_start_loc, tl.load(bounds).to(tl.int32))
        tl.store(query_start_loc + 1 + chunk, behind.to(tl.int32), mask=is_chunk)
        end = tl.load(ends + chunk, mask=is_chunk, other=0)
        tl.store(seq_lens + chunk, end.to(tl.int32), mask=is_chunk)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum((behind[None, :] <= index[:, None]).to(tl.int32), 1)
    own = tl.minimum(own, num_chunks - 1)
    is_token = index < tl.load(bounds + num_chunks)
    position = index + tl.load(ends + own) - tl.load(bounds + 1 + own)
    pages = block_table + own.to(tl.int64) * NUM_PAGES
    stored = cache_slot(pages, position, is_token & (position >= 0), NUM_PAGES, PAGE_SIZE)
    exists = index < num_tokens
    tl.store(position_ids + index, tl.where(is_token, position, 0), mask=exists)
    tl.store(slot_mapping + index, tl.where(is_token, stored, -1), mask=exists)
