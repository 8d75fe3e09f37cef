"""Owns the launches of the products of float8 experts, and their tiles.

Inner features are rounded to float8 where they are computed if a program has all that share a
scale. Otherwise they are written in the model's dtype, and rounded where they are read if these are
few rows with one scale each, else by one more kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.experts import ExpertMatrices, GateLimits, Routing
from specguide.kernels.float8 import BLOCK, Float8Rows, Float8Scaling, UnroundedRows
from specguide.kernels.triton.device import num_multiprocessors, overlap, shared_memory
from specguide.kernels.triton.experts import BlockPointers, empty_parts, pointers_of
from specguide.kernels.triton.experts_float8_kernels import (
    Float8Form,
    Float8Sink,
    RowPointers,
    float8_experts_kernel,
)
from specguide.kernels.triton.float8 import empty_rows, to_float8, to_float8_by

_DTYPES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
_ROWS_FIRST = 64
"""Rows from which on products are [rows, features]."""
_MOST_ROUNDED_LATE = 32
"""Maximum rows of a block for which the product behind rounds, which saves a launch."""
_OTHER_BYTES = 2 << 10
"""Shared memory for anything but steps in flight."""


@dataclass(frozen=True)
class Tile:
    """What a program computes.

    block_out: features
    rows:      pairs; a block of more is computed by several programs
    block_in:  columns per step, 128 or more; fewer are taken if fewer share a scale
    """

    block_out: int
    rows: int
    block_in: int
    num_warps: int
    num_stages: int

    def stage_bytes(self, *, is_gated: bool) -> int:
        """Shared memory of a step in flight."""
        return (self.block_out * (2 if is_gated else 1) + self.rows) * self.block_in


TILES: dict[tuple[bool, bool], dict[int, Tile]] = {
    (True, True): {
        16: Tile(128, 16, 128, 4, 3),
        32: Tile(128, 32, 128, 8, 3),
        64: Tile(128, 64, 128, 8, 4),
        128: Tile(128, 128, 128, 8, 4),
    },
    (True, False): {
        16: Tile(64, 16, 128, 4, 3),
        32: Tile(64, 32, 128, 4, 3),
        64: Tile(128, 64, 128, 8, 4),
        128: Tile(128, 128, 128, 8, 4),
    },
    (False, True): {
        16: Tile(64, 16, 128, 4, 4),
        32: Tile(64, 32, 128, 4, 4),
        64: Tile(128, 64, 128, 8, 4),
        128: Tile(128, 128, 128, 8, 4),
    },
    (False, False): {
        16: Tile(64, 16, 128, 4, 4),
        32: Tile(64, 32, 128, 4, 4),
        64: Tile(128, 64, 128, 8, 4),
        128: Tile(128, 128, 128, 8, 4),
    },
}
"""The tile by whether gates and ups are computed, whether a row has several scales, and the rows of
a block."""
IDLE_TILE = Tile(64, 16, 128, 4, 3)
"""The tile for gates and ups if those in TILES would leave multiprocessors idle."""


def gated_experts_float8(
    x: Float8Rows,
    matrices: ExpertMatrices,
    routing: Routing,
    limits: GateLimits | None,
    scaling: Float8Scaling | None,
    dtype: torch.dtype,
) -> Tensor | Float8Rows | UnroundedRows:
    """See experts_float8.gated_experts_float8."""
    num_pairs, num_outputs = routing.weights.numel(), matrices.out_features // 2
    tile = choose_tile(matrices, routing, is_gated=True)
    device = x.device
    if scaling is not None and _is_rounded_inside(scaling, tile, num_outputs):
        rows = empty_rows(num_pairs, num_outputs, scaling, device)
        sink = Float8Sink(*rows, scaling.static_scale, None)
        _launch(x, matrices, routing, sink, tile, dtype, is_gated=True, limits=limits)
        return rows
    inner = torch.empty(num_pairs, num_outputs, dtype=dtype, device=device)
    largest = None
    if scaling is not None and not scaling.is_grouped:
        num_programs = triton.cdiv(num_outputs, tile.block_out)
        largest = torch.empty(num_pairs, num_programs, dtype=torch.float32, device=device)
    sink = Float8Sink(inner, None, None, largest)
    _launch(x, matrices, routing, sink, tile, dtype, is_gated=True, limits=limits)
    if scaling is None:
        return inner
    if largest is None:
        return to_float8(inner, scaling)
    is_late = routing.blocks is not None and routing.blocks.rows <= _MOST_ROUNDED_LATE
    return UnroundedRows(inner, largest) if is_late else to_float8_by(inner, largest)


def expert_parts_float8(
    inner: Float8Rows | UnroundedRows,
    matrices: ExpertMatrices,
    routing: Routing,
    dtype: torch.dtype,
) -> Tensor:
    """See experts_float8.expert_parts_float8."""
    output = empty_parts(routing, matrices.out_features, dtype)
    tile = choose_tile(matrices, routing, is_gated=False)
    sink = Float8Sink(output, None, None, None)
    _launch(inner, matrices, routing, sink, tile, dtype, is_gated=False)
    return output


def choose_tile(matrices: ExpertMatrices, routing: Routing, *, is_gated: bool) -> Tile:
    """The tile for products of these shapes."""
    assert routing.blocks is not None
    rows = routing.blocks.rows
    tile = TILES[is_gated, _has_blocks(matrices)][rows]
    if is_gated and rows == IDLE_TILE.rows:
        num_outputs = matrices.out_features // 2
        num_experts = min(routing.weights.numel(), matrices.num_experts)
        num_programs = num_experts * triton.cdiv(num_outputs, tile.block_out)
        if num_programs < num_multiprocessors(matrices.device):
            tile = IDLE_TILE
    num_bytes = tile.stage_bytes(is_gated=is_gated)
    most = (shared_memory(matrices.device) - _OTHER_BYTES) // num_bytes
    return replace(tile, num_stages=max(1, min(tile.num_stages, most)))


def _has_blocks(matrices: ExpertMatrices) -> bool:
    """Whether a row has several scales."""
    return matrices.block[1] < matrices.in_features


def _is_rounded_inside(scaling: Float8Scaling, tile: Tile, num_outputs: int) -> bool:
    """Whether a program sees all inner features that share a scale."""
    group = BLOCK if scaling.is_grouped else num_outputs
    return scaling.static_scale is not None or tile.block_out == group


def _form(
    x: Float8Rows | UnroundedRows, matrices: ExpertMatrices, tile: Tile, *, is_gated: bool
) -> Float8Form:
    row_len, (scale_rows, scale_columns) = matrices.in_features, matrices.block
    num_parts = x.largest.shape[1] if isinstance(x, UnroundedRows) else 0
    group = BLOCK if isinstance(x, Float8Rows) and x.scale.shape[1] > 1 else row_len
    shared = [size for size in (scale_columns, group) if size < row_len]
    is_even = not is_gated or matrices.out_features // 2 % tile.block_out == 0
    constants = (
        *(row_len, math.gcd(tile.block_in, *shared), scale_rows, scale_columns, group),
        *(bool(shared), scale_rows % tile.block_out == 0 and is_even),
        *(tile.rows >= _ROWS_FIRST, num_parts, triton.next_power_of_2(num_parts)),
    )
    return Float8Form(*map(tl.constexpr, constants))


def _launch(
    x: Float8Rows | UnroundedRows,
    matrices: ExpertMatrices,
    routing: Routing,
    sink: Float8Sink,
    tile: Tile,
    dtype: torch.dtype,
    *,
    is_gated: bool,
    limits: GateLimits | None = None,
) -> None:
    """Fill what `sink` points to with a row for each pair."""
    blocks = routing.blocks
    assert blocks is not None
    num_outputs = matrices.out_features // (2 if is_gated else 1)
    num_parts = blocks.rows // tile.rows
    grid = triton.cdiv(num_outputs, tile.block_out), len(blocks.experts) * num_parts
    float8_experts_kernel[grid](
        RowPointers(*x),
        pointers_of(matrices),
        sink,
        routing.weights,
        BlockPointers(blocks.pairs, blocks.experts, blocks.sizes, blocks.num),
        _form(x, matrices, tile, is_gated=is_gated),
        len(routing.weights),
        NUM_OUTPUTS=num_outputs,
        K=routing.weights.shape[1],
        GATED=is_gated,
        ALPHA=None if limits is None else limits.alpha,
        LIMIT=None if limits is None else limits.limit,
        DTYPE=_DTYPES[dtype],
        BLOCK_ROWS=blocks.rows,
        ROWS=tile.rows,
        BLOCK_OUT=tile.block_out,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
