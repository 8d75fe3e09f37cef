"""Owns the launch of the Gluon kernel for products of few rows on a Hopper GPU: when it runs, and
in which tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import triton
from torch import Tensor

from specguide.kernels.pointwise import ProductScales
from specguide.kernels.triton import hopper
from specguide.kernels.triton.device import num_multiprocessors, overlap
from specguide.kernels.triton.splits import num_splits_of

_MOST_ROWS = 64
_TILE = 64
"""Number of the weight's features that are multiplied at a time."""
_LINE_BYTES = 128
"""Bytes of each feature and row that are multiplied at a time."""
_SHARED_BYTES, _SHARED_BYTES_OF_TWO = 216 << 10, 100 << 10
"""Maximum bytes of a program's shared memory if it has a multiprocessor to itself, and if it shares
one with another program."""
_FEWEST_STAGES, _MOST_STAGES_OF_TWO = 4, 8
_REGISTERS = {8: 80, 16: 80, 32: 96, 64: 96}
"""Registers per thread, by rows: so few that other kernels find some. The warps that multiply take
most registers of the warps that only copy."""
_attempts = hopper.Attempts("matrix products of few rows")


@dataclass(frozen=True)
class Tile:
    """What a program computes.

    rows:       rows of the product, 8 to 64
    num_splits: programs over which the sum of one feature is spread
    num_stages: number of steps that fit in shared memory
    """

    rows: int
    num_splits: int
    num_stages: int


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    scales: ProductScales | None = None,
    *,
    may_split: bool,
) -> Tensor | None:
    """The output of `launch` with the best tile; None if another kernel should be used."""
    if not takes(x, weight):
        return None
    tile = choose_tile(x, weight, is_gated=False, may_split=may_split)
    found = _attempts.result(
        (x.dtype, _has_blocks(scales)), partial(launch, x, weight, bias, dtype, tile, scales)
    )
    return None if found is None else found[0]


def gated_product(
    x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, scales: ProductScales
) -> tuple[Tensor, Tensor] | None:
    """silu(gate) · up [T, outputs], and the largest absolute value of each part of a row, float32
    [T, parts]; None if another kernel should be used."""
    if not takes(x, weight):
        return None
    tile = choose_tile(x, weight, is_gated=True, may_split=False)
    found = _attempts.result(
        (x.dtype, "gated"),
        partial(launch, x, weight, bias, dtype, tile, scales, is_gated=True),
    )
    if found is None:
        return None
    (output,), largest = found
    assert largest is not None
    return output, largest


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernel can multiply these, and is faster than the others for so many rows."""
    return (
        0 < len(x) <= _MOST_ROWS
        and x.dtype == weight.dtype
        and x.is_floating_point()
        and x.element_size() <= 2
        and weight.shape[1] * weight.element_size() % _LINE_BYTES == 0
        and hopper.is_aligned(x)
        and hopper.is_aligned(weight)
        and hopper.runs_on(x.device, "linear_hopper_kernels")
    )


def choose_tile(x: Tensor, weight: Tensor, *, is_gated: bool, may_split: bool) -> Tile:
    """The tile for products of these shapes; the choice was the fastest on H100 and H200 GPUs,
    measured between the other kernels of a layer. A program that is alone on its multiprocessor
    requests at most half of its weights ahead.

    is_gated: the weight has gates, then as many ups
    """
    rows = max(8, triton.next_power_of_2(len(x)))
    num_places = num_multiprocessors(x.device)
    features_each = 2 * _TILE if is_gated else _TILE
    num_programs = triton.cdiv(weight.shape[0], features_each)
    num_steps = weight.shape[1] * weight.element_size() // _LINE_BYTES
    num_splits = num_splits_of(num_programs, 3 * num_places // 2, num_steps) if may_split else 1
    has_two = num_programs * num_splits > num_places
    stage_bytes = _LINE_BYTES * (rows + features_each)
    steps_each = num_steps // num_splits
    if has_two:
        most_stages = min(_MOST_STAGES_OF_TWO, _SHARED_BYTES_OF_TWO // stage_bytes)
    else:
        most_stages = min(max(_FEWEST_STAGES, steps_each // 2), _SHARED_BYTES // stage_bytes)
    num_stages = min(most_stages, steps_each)
    return Tile(rows, num_splits, num_stages)


def _has_blocks(scales: ProductScales | None) -> bool:
    return scales is not None and scales.columns.dim() == 2


def launch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    tile: Tile,
    scales: ProductScales | None = None,
    *,
    is_gated: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The product [splits, T, outputs] in `dtype`, float32 if there are several splits. For a gated
    one also the largest absolute output of each program, float32 [T, programs].

    x:      [T, in_features], float8 or of two bytes
    weight: [out_features, in_features]
    scales: of a float8 product; for blocks float32 [T, in_features / 128] and [⌈out_features /
            128⌉, in_features / 128]
    is_gated: only for float8 without blocks
    """
    from specguide.kernels.triton.linear_hopper_kernels import linear_hopper_kernel

    num_rows, num_outputs = len(x), weight.shape[0] // (2 if is_gated else 1)
    kept = torch.float32 if tile.num_splits > 1 else dtype
    output = torch.empty(tile.num_splits, num_rows, num_outputs, dtype=kept, device=x.device)
    num_programs = triton.cdiv(num_outputs, _TILE)
    largest = torch.empty(num_rows, num_programs, device=x.device) if is_gated else None
    linear_hopper_kernel[(num_programs, tile.num_splits)](
        hopper.blocks(weight, _TILE, weight.shape, weight.stride(0)),
        hopper.blocks(x, tile.rows, x.shape, x.stride(0)),
        *(scales or (None, None)),
        bias,
        output,
        largest,
        num_rows,
        num_outputs,
        ROW_LEN=weight.shape[1],
        NUM_SPLITS=tile.num_splits,
        GATED=is_gated,
        BLOCKS=_has_blocks(scales),
        STAGES=tile.num_stages,
        num_warps=4,
        maxnreg=_REGISTERS[tile.rows],
        **overlap(x.device),
    )
    return output, largest
