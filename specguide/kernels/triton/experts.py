"""Owns the launches of the products of experts.

A product of few tokens takes as long as reading the matrices of the experts in use; other experts
are not read. The rows per block are limited, so that an expert's matrix that several blocks read
comes from the L2 cache. Each pair writes to its own place, and the k parts of a token are added in
their order: outputs are the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.experts import (
    AnyExperts,
    ExpertBlocks,
    ExpertMatrices,
    GateLimits,
    Int4Experts,
    Routing,
)
from specguide.kernels.triton.device import num_multiprocessors, overlap, shared_memory
from specguide.kernels.triton.experts_kernels import (
    BlockPointers,
    Int4ExpertPointers,
    Int4Form,
    MatrixForm,
    MatrixPointers,
    experts_kernel,
)
from specguide.kernels.triton.int4 import num_stages_of
from specguide.kernels.triton.int4_planes import unpacking

_FEW_ROWS = 32
_BLOCK_IN = 128
_LARGE_MEMORY = 200 << 10
"""Bytes of shared memory with which four steps of 128 gates and ups are in flight."""
_MOST_FLOAT32_PARTS = 64
"""Maximum tokens whose parts are kept in float32 until they are summed."""


@dataclass(frozen=True)
class Tile:
    """What a program computes. block_out: features; block_in: columns per step"""

    block_out: int
    block_in: int
    num_warps: int
    num_stages: int


def gated_experts(
    x: Tensor, matrices: AnyExperts, routing: Routing, limits: GateLimits | None = None
) -> Tensor:
    """See experts.gated_experts."""
    num_outputs = matrices.out_features // 2
    output = torch.empty(routing.weights.numel(), num_outputs, dtype=x.dtype, device=x.device)
    _launch(x, matrices, routing, output, is_gated=True, limits=limits)
    return output


def expert_parts(inner: Tensor, matrices: AnyExperts, routing: Routing) -> Tensor:
    """See experts.expert_parts."""
    output = empty_parts(routing, matrices.out_features, inner.dtype)
    _launch(inner, matrices, routing, output, is_gated=False)
    return output


def empty_parts(routing: Routing, num_outputs: int, dtype: torch.dtype) -> Tensor:
    """Memory for the result of `expert_parts`, [k, T, outputs]; zeros where pairs may be missing.
    dtype: the dtype of many tokens' parts; those of few are float32"""
    num_tokens, num_chosen = routing.weights.shape
    kept = torch.float32 if num_tokens <= _MOST_FLOAT32_PARTS else dtype
    empty = torch.empty if routing.is_whole else torch.zeros
    shape = (num_chosen, num_tokens, num_outputs)
    return empty(shape, dtype=kept, device=routing.weights.device)


def choose_tile(
    matrices: AnyExperts, blocks: ExpertBlocks, num_pairs: int, *, is_gated: bool
) -> Tile:
    """The tile for products of these shapes."""
    num_outputs = matrices.out_features // (2 if is_gated else 1)
    if isinstance(matrices, Int4Experts):
        return _int4_tile(matrices, blocks.rows, is_gated=is_gated)
    if blocks.rows > _FEW_ROWS:
        return _tile_of_many_rows(matrices, is_gated=is_gated)
    num_programs = min(num_pairs, matrices.num_experts) * triton.cdiv(num_outputs, 64)
    is_idle = num_programs < 2 * num_multiprocessors(matrices.device)
    block_out = 32 if is_gated and is_idle else 64
    return Tile(block_out, _BLOCK_IN, num_warps=4, num_stages=3 if is_gated else 4)


def _tile_of_many_rows(matrices: ExpertMatrices, *, is_gated: bool) -> Tile:
    """The tile for blocks of more rows than in decoding."""
    block_in = _BLOCK_IN // 2
    if matrices.values.dtype.itemsize == 2 and shared_memory(matrices.device) >= _LARGE_MEMORY:
        return Tile(128, block_in, num_warps=8, num_stages=4)
    return Tile(64 if is_gated else 128, block_in, num_warps=8, num_stages=3)


def _int4_tile(matrices: Int4Experts, rows: int, *, is_gated: bool) -> Tile:
    """The tile for 4-bit integers. A step reads one tile of the packed numbers and the matching
    columns of the inputs."""
    block_out = 32 if is_gated and rows > _FEW_ROWS else 64
    stage = num_stages_of(
        matrices.expert(0).words.shape[2], block_out * (2 if is_gated else 1), rows
    )
    num_warps = 8 if rows > _FEW_ROWS else 4
    return Tile(block_out, matrices.in_features, num_warps, max(1, stage))


def pointers_of(matrices: AnyExperts) -> MatrixPointers | Int4ExpertPointers:
    if isinstance(matrices, Int4Experts):
        words, scales = matrices.words, matrices.scales
        experts = words.stride(0), scales.stride(0)
        steps = words.stride(1), scales.stride(1)
        return Int4ExpertPointers(words, scales, matrices.zeros, matrices.bias, *experts, *steps)
    scales_stride = 0 if matrices.scales is None else matrices.scales.stride(0)
    steps = matrices.values.stride(0), scales_stride
    return MatrixPointers(matrices.values, matrices.scales, matrices.bias, *steps)


def _form(matrices: AnyExperts, block_in: int) -> MatrixForm | Int4Form:
    if isinstance(matrices, Int4Experts):
        width = matrices.words.shape[3]
        return Int4Form(*map(tl.constexpr, (matrices.in_features, matrices.group_size, width)))
    constants = matrices.in_features, block_in, matrices.is_mxfp4
    return MatrixForm(*map(tl.constexpr, constants))


def _launch(
    x: Tensor,
    matrices: AnyExperts,
    routing: Routing,
    output: Tensor,
    *,
    is_gated: bool,
    limits: GateLimits | None = None,
) -> None:
    """Fill `output` with a row for each pair."""
    blocks = routing.blocks
    assert blocks is not None
    num_outputs = matrices.out_features // (2 if is_gated else 1)
    tile = choose_tile(matrices, blocks, routing.weights.numel(), is_gated=is_gated)
    is_int4 = isinstance(matrices, Int4Experts)
    unpack, form = unpacking(x.dtype, x.device) if is_int4 else (None, None)
    experts_kernel[(triton.cdiv(num_outputs, tile.block_out), len(blocks.experts))](
        x,
        pointers_of(matrices),
        output,
        routing.weights,
        BlockPointers(blocks.pairs, blocks.experts, blocks.sizes, blocks.num),
        _form(matrices, tile.block_in),
        len(routing.weights),
        x.stride(0),
        NUM_OUTPUTS=num_outputs,
        K=routing.weights.shape[1],
        GATED=is_gated,
        ALPHA=None if limits is None else limits.alpha,
        LIMIT=None if limits is None else limits.limit,
        ROWS=blocks.rows,
        BLOCK_OUT=tile.block_out,
        IS_INT4=is_int4,
        UNPACK=unpack,
        FORM=form,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
