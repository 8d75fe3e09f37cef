"""Owns the Triton kernels that rotate heads: rope_and_store, which writes the paged cache, and
rotate."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.kv_scales import UNSCALED, KVScales
from specguide.kernels.pointwise import ProductScales
from specguide.kernels.rotary_layout import HALVES, RotaryLayout
from specguide.kernels.triton.device import await_results, overlap
from specguide.kernels.triton.float8 import NO_SCALES, ScalesAt, clamped


class _Heads(NamedTuple):
    """A pointer to heads of all tokens, the strides between tokens, heads and parts, and the scales
    of the product that has these parts."""

    heads: Any
    stride: Any
    head_stride: Any
    part_stride: Any
    scales: Any


@triton.jit
def _load_halves(source, exists, HALF: tl.constexpr):
    return tl.load(source, mask=exists, other=0), tl.load(source + HALF, mask=exists, other=0)


@triton.jit
def store_halves(sink, low, high, exists, HALF: tl.constexpr):
    tl.store(sink, low, mask=exists)
    tl.store(sink + HALF, high, mask=exists)


@triton.jit
def _cached(numbers, factor, dtype: tl.constexpr):
    """See kv_scales.cached; `factor` is the scale's inverse."""
    if dtype == tl.float8e4nv:
        numbers = clamped(numbers.to(tl.float32) * factor)
    return numbers.to(dtype)


@triton.jit
def pairs(dim, HALF: tl.constexpr, TURNED: tl.constexpr, IS_INTERLEAVED: tl.constexpr):
    """The places in a head of the dimensions that rotate together; see RotaryLayout."""
    if IS_INTERLEAVED:
        low, high = 2 * dim, 2 * dim + 1
    elif TURNED < HALF:
        low = tl.where(dim < TURNED, dim, dim + TURNED)
        high = tl.where(dim < TURNED, dim + TURNED, dim + HALF)
    else:
        low, high = dim, dim + HALF
    return low, high


@triton.jit
def _load_heads(product, token, head, dim, column, exists, NUM_PARTS: tl.constexpr):
    """One dimension of some heads of a token; float32 if they are sums of parts, or scaled.

    column: the column of the product at which the heads' scales begin
    """
    source = product.heads + token * product.stride + head * product.head_stride + dim
    values = tl.load(source, mask=exists, other=0)
    if NUM_PARTS > 1:
        values = values.to(tl.float32)
        for part in tl.static_range(1, NUM_PARTS):
            values += tl.load(source + part * product.part_stride, mask=exists, other=0)
    if product.scales.rows is not None:
        scale = tl.load(product.scales.columns + column + dim, mask=exists, other=0)
        values = values.to(tl.float32) * scale * tl.load(product.scales.rows + token)
    return values


@triton.jit
def _store_cached(sink, low, high, factor, exists, HALF: tl.constexpr):
    dtype: tl.constexpr = sink.dtype.element_ty
    store_halves(sink, _cached(low, factor, dtype), _cached(high, factor, dtype), exists, HALF)


@triton.jit
def rotated(low, high, rotary, in_half, HALF: tl.constexpr):
    """Both halves of heads, rotated, float32. rotary: pointer to a token's two halves of cosines,
    then of sines"""
    low_cos, high_cos = _load_halves(rotary, in_half, HALF)
    low_sin, high_sin = _load_halves(rotary + 2 * HALF, in_half, HALF)
    low_sum = low * low_cos.to(tl.float32) + high * low_sin.to(tl.float32)
    return low_sum, high * high_cos.to(tl.float32) + low * high_sin.to(tl.float32)


@triton.jit
def _turned_heads(
    product,
    rotary,
    token,
    head,
    dim,
    exists,
    NUM_PARTS: tl.constexpr,
    HALF: tl.constexpr,
    TURNED: tl.constexpr,
    IS_INTERLEAVED: tl.constexpr,
):
    """Some heads of a token, rotated: both halves, float32."""
    low_dim, high_dim = pairs(dim, HALF, TURNED, IS_INTERLEAVED)
    column = head * (2 * HALF)
    low = _load_heads(product, token, head, low_dim, column, exists, NUM_PARTS)
    high = _load_heads(product, token, head, high_dim, column, exists, NUM_PARTS)
    rotary += token * (4 * HALF) + dim
    return rotated(low.to(tl.float32), high.to(tl.float32), rotary, dim < HALF, HALF)


@triton.jit
def _rope_kernel(
    query_key,
    value,
    rotary,
    key_cache,
    value_cache,
    slot_mapping,
    query,
    key_factor,
    value_factor,
    NUM_PARTS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_KV_HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    TURNED: tl.constexpr,
    IS_INTERLEAVED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One token: rotates its queries and keys, and stores its keys and values in their slot."""
    await_results(OVERLAP)
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token)
    dim = tl.arange(0, BLOCK_HALF)[None, :]
    head = tl.arange(0, BLOCK_HEADS)[:, None]
    kv_head = tl.arange(0, BLOCK_KV_HEADS)[:, None]
    is_query = (head < NUM_HEADS) & (dim < HALF)
    is_key = (kv_head < NUM_KV_HEADS) & (dim < HALF)
    # Loaded before the slot is known, so that a program waits for memory only once.
    column = (NUM_HEADS + NUM_KV_HEADS + kv_head) * (2 * HALF)
    value_low = _load_heads(value, token, kv_head, dim, column, is_key, NUM_PARTS)
    value_high = _load_heads(value, token, kv_head, HALF + dim, column, is_key, NUM_PARTS)
    key_low, key_high = _turned_heads(
        *(query_key, rotary, token, NUM_HEADS + kv_head, dim, is_key),
        *(NUM_PARTS, HALF, TURNED, IS_INTERLEAVED),
    )
    low, high = _turned_heads(
        *(query_key, rotary, token, head, dim, is_query),
        *(NUM_PARTS, HALF, TURNED, IS_INTERLEAVED),
    )
    sink = query + (token * NUM_HEADS + head) * (2 * HALF) + dim
    store_halves(sink, low, high, is_query, HALF)
    cell = (slot * NUM_KV_HEADS + kv_head) * (2 * HALF) + dim
    is_stored = is_key & (slot >= 0)
    _store_cached(key_cache + cell, key_low, key_high, key_factor, is_stored, HALF)
    _store_cached(value_cache + cell, value_low, value_high, value_factor, is_stored, HALF)


def rope_and_store(
    query_key: Tensor,
    value: Tensor,
    rotary: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    scales: KVScales = UNSCALED,
    layout: RotaryLayout = HALVES,
    product_scales: ProductScales | None = None,
) -> Tensor:
    """See pointwise.rope_and_store."""
    num_tokens, num_rotated, head_dim = query_key.shape[-3:]
    num_parts = 1 if query_key.dim() == 3 else len(query_key)
    num_kv_heads = value.shape[-2]
    num_heads = num_rotated - num_kv_heads
    shape = num_tokens, num_heads, head_dim
    query = torch.empty(shape, dtype=rotary.dtype, device=query_key.device)
    block_heads, block_kv_heads = map(triton.next_power_of_2, (num_heads, num_kv_heads))
    block_half = triton.next_power_of_2(head_dim // 2)
    _rope_kernel[(num_tokens,)](
        _heads(query_key, product_scales),
        _heads(value, product_scales),
        rotary,
        key_cache,
        value_cache,
        slot_mapping,
        query,
        1 / scales.key,
        1 / scales.value,
        NUM_PARTS=num_parts,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HALF=head_dim // 2,
        BLOCK_HEADS=block_heads,
        BLOCK_KV_HEADS=block_kv_heads,
        BLOCK_HALF=block_half,
        TURNED=layout.turned_half(head_dim),
        IS_INTERLEAVED=layout.is_interleaved,
        num_warps=min(8, max(1, block_heads * block_half // 256)),
        **overlap(value.device),
    )
    return query


@triton.jit
def _rotate_kernel(
    heads,
    rotary,
    output,
    NUM_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    TURNED: tl.constexpr,
    IS_INTERLEAVED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """The heads of one token."""
    await_results(OVERLAP)
    token = tl.program_id(0).to(tl.int64)
    dim = tl.arange(0, BLOCK_HALF)[None, :]
    head = tl.arange(0, BLOCK_HEADS)[:, None]
    exists = (head < NUM_HEADS) & (dim < HALF)
    low, high = _turned_heads(
        *(heads, rotary, token, head, dim, exists), *(1, HALF, TURNED, IS_INTERLEAVED)
    )
    sink = output + (token * NUM_HEADS + head) * (2 * HALF) + dim
    store_halves(sink, low, high, exists, HALF)


def rotate(heads: Tensor, rotary: Tensor, layout: RotaryLayout = HALVES) -> Tensor:
    """See pointwise.rotate."""
    num_tokens, num_heads, head_dim = heads.shape
    output = torch.empty(heads.shape, dtype=rotary.dtype, device=heads.device)
    block_heads = triton.next_power_of_2(num_heads)
    block_half = triton.next_power_of_2(head_dim // 2)
    _rotate_kernel[(num_tokens,)](
        _heads(heads, None),
        rotary,
        output,
        NUM_HEADS=num_heads,
        HALF=head_dim // 2,
        BLOCK_HEADS=block_heads,
        BLOCK_HALF=block_half,
        TURNED=layout.turned_half(head_dim),
        IS_INTERLEAVED=layout.is_interleaved,
        num_warps=min(8, max(1, block_heads * block_half // 256)),
        **overlap(heads.device),
    )
    return output


def _heads(heads: Tensor, scales: ProductScales | None) -> _Heads:
    part_stride = heads.stride(0) if heads.dim() == 4 else 0
    at = NO_SCALES if scales is None else ScalesAt(*scales)
    return _Heads(heads, heads.stride(-3), heads.stride(-2), part_stride, at)
