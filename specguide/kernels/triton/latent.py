"""Owns the Triton kernel that stores the keys of latent attention."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.latent import LatentNorm, LatentQueries
from specguide.kernels.rotary_layout import RotaryLayout
from specguide.kernels.triton.device import await_results, overlap
from specguide.kernels.triton.rope import pairs, rotated, store_halves

_HEADS_EACH = 8
"""Heads whose queries one program copies and rotates."""


class _Queries(NamedTuple):
    """Pointers to both parts of the queries, and the strides between tokens and between heads."""

    latent: Any
    latent_stride: Any
    latent_head_stride: Any
    turned: Any
    turned_stride: Any
    turned_head_stride: Any


@triton.jit
def _turned(source, dim, rotary, exists, HALF: tl.constexpr, IS_INTERLEAVED: tl.constexpr):
    """Numbers at `source`, rotated: both halves, float32."""
    low_dim, high_dim = pairs(dim, HALF, HALF, IS_INTERLEAVED)
    low = tl.load(source + low_dim, mask=exists, other=0).to(tl.float32)
    high = tl.load(source + high_dim, mask=exists, other=0).to(tl.float32)
    return rotated(low, high, rotary + dim, dim < HALF, HALF)


@triton.jit
def _store_key(
    keys,
    weight,
    rotary,
    key_cache,
    slot,
    eps,
    RANK: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    IS_INTERLEAVED: tl.constexpr,
):
    """Norm a token's latents, rotate the rest of its key, and store both."""
    column, dim = tl.arange(0, BLOCK_RANK), tl.arange(0, BLOCK_HALF)
    is_latent = column < RANK
    latent = tl.load(keys + column, mask=is_latent, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(latent * latent, 0) / RANK + eps)
    normed = latent * scale * tl.load(weight + column, mask=is_latent, other=0).to(tl.float32)
    low, high = _turned(keys + RANK, dim, rotary, dim < HALF, HALF, IS_INTERLEAVED)
    sink = key_cache + slot * (RANK + 2 * HALF)
    tl.store(sink + column, normed, mask=is_latent & (slot >= 0))
    store_halves(sink + RANK + dim, low, high, (dim < HALF) & (slot >= 0), HALF)


@triton.jit
def _latents_kernel(
    keys,
    keys_stride,
    queries,
    weight,
    rotary,
    key_cache,
    slot_mapping,
    query,
    eps,
    NUM_HEADS: tl.constexpr,
    RANK: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    IS_INTERLEAVED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some heads of one token: puts both parts of their queries together. The first program of a
    token also stores its key."""
    await_results(OVERLAP)
    token = tl.program_id(0).to(tl.int64)
    rotary += token * (4 * HALF)
    if tl.program_id(1) == 0:
        slot = tl.load(slot_mapping + token)
        _store_key(
            *(keys + token * keys_stride, weight, rotary, key_cache, slot, eps),
            *(RANK, HALF, BLOCK_RANK, BLOCK_HALF, IS_INTERLEAVED),
        )
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)[:, None]
    column, dim = tl.arange(0, BLOCK_RANK)[None, :], tl.arange(0, BLOCK_HALF)[None, :]
    sink = query + (token * NUM_HEADS + head) * (RANK + 2 * HALF)
    is_latent = (head < NUM_HEADS) & (column < RANK)
    source = queries.latent + token * queries.latent_stride + head * queries.latent_head_stride
    tl.store(sink + column, tl.load(source + column, mask=is_latent), mask=is_latent)
    is_turned = (head < NUM_HEADS) & (dim < HALF)
    source = queries.turned + token * queries.turned_stride + head * queries.turned_head_stride
    low, high = _turned(source, dim, rotary, is_turned, HALF, IS_INTERLEAVED)
    store_halves(sink + RANK + dim, low, high, is_turned, HALF)


def rope_and_store_latents(
    keys: Tensor,
    queries: LatentQueries,
    norm: LatentNorm,
    rotary: Tensor,
    key_cache: Tensor,
    slot_mapping: Tensor,
    layout: RotaryLayout,
) -> Tensor:
    """See latent.rope_and_store_latents."""
    latent, turned = queries
    num_tokens, num_heads, rank = latent.shape
    rope_dim = turned.shape[2]
    shape = num_tokens, num_heads, rank + rope_dim
    query = torch.empty(shape, dtype=rotary.dtype, device=keys.device)
    block_heads = min(_HEADS_EACH, triton.next_power_of_2(num_heads))
    _latents_kernel[(num_tokens, triton.cdiv(num_heads, block_heads))](
        keys,
        keys.stride(0),
        _Queries(*_strided(latent), *_strided(turned)),
        norm.weight,
        rotary,
        key_cache,
        slot_mapping,
        query,
        norm.eps,
        NUM_HEADS=num_heads,
        RANK=rank,
        HALF=rope_dim // 2,
        BLOCK_HEADS=block_heads,
        BLOCK_RANK=triton.next_power_of_2(rank),
        BLOCK_HALF=triton.next_power_of_2(rope_dim // 2),
        IS_INTERLEAVED=layout.is_interleaved,
        num_warps=4,
        **overlap(keys.device),
    )
    return query


def _strided(heads: Tensor) -> tuple[Tensor, int, int]:
    """Heads [T, num_heads, D], and their strides between tokens and between heads."""
    return heads, heads.stride(0), heads.stride(1)
