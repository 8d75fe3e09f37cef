"""Owns the Triton kernels that write the paged cache: rope_and_store, and store_kv where nothing is
to be rotated."""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.device import await_results, overlap


@triton.jit
def _rope_kernel(
    query_key,
    value,
    rotary,
    key_cache,
    value_cache,
    slot_mapping,
    query,
    query_key_stride,
    query_key_head_stride,
    value_stride,
    value_head_stride,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One token: its queries and keys are rotated, its keys and values go to their slot."""
    await_results(OVERLAP)
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token)
    head = tl.arange(0, BLOCK_HEADS)[:, None]
    dim = tl.arange(0, BLOCK_HALF)[None, :]
    in_half = dim < HALF
    is_query, is_key = (
        (head < NUM_HEADS) & in_half,
        (head >= NUM_HEADS) & (head < NUM_HEADS + NUM_KV_HEADS) & in_half,
    )
    source = query_key + token * query_key_stride + head * query_key_head_stride + dim
    low = tl.load(source, mask=is_query | is_key, other=0).to(tl.float32)
    high = tl.load(source + HALF, mask=is_query | is_key, other=0).to(tl.float32)
    turn = rotary + token * (4 * HALF) + dim
    low_cos = tl.load(turn, mask=in_half, other=0).to(tl.float32)
    high_cos = tl.load(turn + HALF, mask=in_half, other=0).to(tl.float32)
    low_sin = tl.load(turn + 2 * HALF, mask=in_half, other=0).to(tl.float32)
    high_sin = tl.load(turn + 3 * HALF, mask=in_half, other=0).to(tl.float32)
    low, high = low * low_cos + high * low_sin, high * high_cos + low * high_sin
    sink = query + (token * NUM_HEADS + head) * (2 * HALF) + dim
    tl.store(sink, low, mask=is_query)
    tl.store(sink + HALF, high, mask=is_query)
    if slot >= 0:
        cell = (slot * NUM_KV_HEADS + head - NUM_HEADS) * (2 * HALF) + dim
        tl.store(key_cache + cell, low, mask=is_key)
        tl.store(key_cache + cell + HALF, high, mask=is_key)
        source = value + token * value_stride + (head - NUM_HEADS) * value_head_stride + dim
        tl.store(value_cache + cell, tl.load(source, mask=is_key, other=0), mask=is_key)
        tl.store(
            value_cache + cell + HALF, tl.load(source + HALF, mask=is_key, other=0), mask=is_key
        )


def rope_and_store(
    query_key: Tensor,
    value: Tensor,
    rotary: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
) -> Tensor:
    """See pointwise.rope_and_store."""
    num_tokens, num_rotated, head_dim = query_key.shape
    num_kv_heads = value.shape[1]
    query = torch.empty(
        num_tokens,
        num_rotated - num_kv_heads,
        head_dim,
        dtype=query_key.dtype,
        device=query_key.device,
    )
    block_heads, block_half = (
        triton.next_power_of_2(num_rotated),
        triton.next_power_of_2(head_dim // 2),
    )
    _rope_kernel[(num_tokens,)](
        query_key,
        value,
        rotary,
        key_cache,
        value_cache,
        slot_mapping,
        query,
        query_key.stride(0),
        query_key.stride(1),
        value.stride(0),
        value.stride(1),
        NUM_HEADS=num_rotated - num_kv_heads,
        NUM_KV_HEADS=num_kv_heads,
        HALF=head_dim // 2,
        BLOCK_HEADS=block_heads,
        BLOCK_HALF=block_half,
        num_warps=min(8, max(1, block_heads * block_half // 256)),
        **overlap(value.device),
    )
    return query
