"""Owns the choice of kernel and tile for products of float8 rows with float8 weights on a GPU:
torch's if the rows are many and the weight has no blocks, else `linear_hopper` if it can, else
Triton's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
from torch import Tensor

from specguide.kernels import float8, products
from specguide.kernels.float8 import BLOCK, Float8Rows, Float8Scaling
from specguide.kernels.pointwise import ProductScales
from specguide.kernels.triton import linear_hopper
from specguide.kernels.triton.device import num_multiprocessors, overlap
from specguide.kernels.triton.float8 import silu_mul_float8, to_float8_by
from specguide.kernels.triton.linear_float8_kernels import (
    Factors,
    gated_linear_float8_kernel,
    linear_float8_kernel,
)
from specguide.kernels.triton.splits import num_splits_of

_MOST_ROWS = {(9, 0): 64}
"""Maximum rows for which Triton's kernel is faster, by compute capability. `python -m
benchmarks.float8_products` finds it for the GPU on which it runs."""
_OTHER_MOST_ROWS = 64
_MOST_UNSCALED = 1024
"""Maximum rows for which the library is faster without scales of rows."""
_LARGEST_TILE = 128
_FEW_ROWS = 32
_PROGRAMS_EACH = 2
"""Number of programs that share a multiprocessor; those with the largest tile have one each."""
_PREFETCHED = 256
"""Columns of each weight row that are prefetched before the kernel may begin."""


@dataclass(frozen=True)
class Tile:
    """What a program computes, and how.

    rows, outputs: rows and features of the product
    columns:       columns of the weight per step; 128 if it has blocks
    num_splits:    programs over which the sum of one feature is spread
    """

    rows: int
    outputs: int
    columns: int
    num_splits: int
    num_warps: int
    num_stages: int


def linear_float8(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """See float8.linear_float8."""
    if _is_for_library(x, weight, scale, dtype):
        return library(x, weight, scale, bias, dtype)
    return _product(x, weight, scale, bias, dtype, may_split=False)[0]


def linear_float8_parts(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, ProductScales | None]:
    """See float8.linear_float8_parts."""
    return _parts(x, weight, scale, bias, dtype, may_split=True)


def gated_linear_float8(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    scaling: Float8Scaling,
    dtype: torch.dtype,
) -> Float8Rows:
    """See float8.gated_linear_float8."""
    if _is_one_kernel(x, weight, scale, scaling, dtype):
        return _gated(x, weight, scale, bias, dtype)
    (gate_up,), scales = _parts(x, weight, scale, bias, dtype, may_split=False)
    return silu_mul_float8(gate_up, scaling, scales)


def _is_one_kernel(
    x: Float8Rows, weight: Tensor, scale: Tensor, scaling: Float8Scaling, dtype: torch.dtype
) -> bool:
    """Whether one kernel multiplies and activates: if it is a Triton kernel, and rows have
    scales."""
    return (
        _is_for_triton(weight)
        and not _is_for_library(x, weight, scale, dtype)
        and weight.shape[0] % _LARGEST_TILE == 0
        and scale.dim() == 1
        and scaling.static_scale is None
        and not scaling.is_grouped
    )


def _gated(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Float8Rows:
    scales = ProductScales(x.scale, scale)
    found = linear_hopper.gated_product(x.values, weight, bias, dtype, scales)
    if found is not None:
        return to_float8_by(*found)
    tile = choose_tile(x, weight, scale, may_split=False)
    num_rows, num_outputs = len(x.values), weight.shape[0] // 2
    output = torch.empty(num_rows, num_outputs, dtype=dtype, device=x.device)
    num_parts = num_outputs // (tile.outputs // 2)
    largest = torch.empty(num_rows, num_parts, device=x.device)
    gated_linear_float8_kernel[(num_parts, triton.cdiv(num_rows, tile.rows))](
        Factors(*x, weight, scale),
        bias,
        output,
        largest,
        num_rows,
        num_outputs,
        ROW_LEN=weight.shape[1],
        ROWS=tile.rows,
        OUTPUTS=tile.outputs,
        COLUMNS=tile.columns,
        PREFETCHED=_PREFETCHED,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
    return to_float8_by(output, largest)


def _parts(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    *,
    may_split: bool,
) -> tuple[Tensor, ProductScales | None]:
    """The product's parts and scales. Parts may be left unscaled if there is no bias; a bias would
    have to be divided by the scales."""
    if not _is_for_library(x, weight, scale, dtype):
        return _product(x, weight, scale, bias, dtype, may_split=may_split), None
    found = None if bias is not None else products.product(x.values, weight, dtype)
    if found is None and bias is None and len(x.values) <= _MOST_UNSCALED:
        found = unscaled(x, weight, dtype)
    if found is not None:
        return found[None], ProductScales(x.scale, scale)
    return library(x, weight, scale, bias, dtype)[None], None


def _product(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    *,
    may_split: bool,
) -> Tensor:
    """Triton's product, [splits, T, outputs], or plain torch's."""
    if not _is_for_triton(weight):
        return float8.linear_float8(x, weight, scale, bias, dtype)[None]
    scales = ProductScales(x.scale, scale)
    found = linear_hopper.product(x.values, weight, bias, dtype, scales, may_split=may_split)
    if found is not None:
        return found
    tile = choose_tile(x, weight, scale, may_split=may_split)
    return launch(x, weight, scale, bias, dtype, tile)


def library(
    x: Float8Rows, weight: Tensor, scale: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """torch's product with scales of rows; bfloat16, and features in multiples of 16.

    Its sums stay in the tensor cores, with 14 bits of a float: far finer than float8.
    """
    return torch._scaled_mm(
        x.values,
        weight.t(),
        x.scale,
        scale[None, :],
        bias=None if bias is None else bias.to(dtype),
        out_dtype=dtype,
        use_fast_accum=True,
    )


def unscaled(x: Float8Rows, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The product of the values alone; bfloat16, and features in multiples of 16.

    The library has faster kernels for this than for scales of rows. Nothing is lost: bfloat16 keeps
    8 bits of a number of any size, so rounding costs the same before scaling as after it, and 448²
    · in_features, the largest possible sum, is far below its largest number.
    """
    one = _one(x.device)
    return torch._scaled_mm(x.values, weight.t(), one, one, out_dtype=dtype, use_fast_accum=True)


@cache
def _one(device: torch.device) -> Tensor:
    """A scale of 1, made once and cached; in a graph it would be made again in each replay."""
    return torch.ones((), device=device)


def _is_for_library(x: Float8Rows, weight: Tensor, scale: Tensor, dtype: torch.dtype) -> bool:
    can = (
        scale.dim() == 1
        and dtype == torch.bfloat16
        and weight.shape[0] % 16 == weight.shape[1] % 16 == 0
        and weight.stride(1) == 1
    )
    return can and (len(x.values) > _most_rows(x.device) or not _is_for_triton(weight))


def _is_for_triton(weight: Tensor) -> bool:
    return weight.is_contiguous() and weight.shape[1] % BLOCK == 0


@cache
def _most_rows(device: torch.device) -> int:
    if device.type != "cuda":
        return _OTHER_MOST_ROWS
    return _MOST_ROWS.get(torch.cuda.get_device_capability(device), _OTHER_MOST_ROWS)


def choose_tile(x: Float8Rows, weight: Tensor, scale: Tensor, *, may_split: bool) -> Tile:
    """The tile for products of these shapes."""
    num_rows, (num_outputs, row_len) = len(x.values), weight.shape
    num_processors = num_multiprocessors(x.device)
    rows = min(_LARGEST_TILE, max(16, triton.next_power_of_2(num_rows)))
    is_few, is_many = rows <= _FEW_ROWS, rows == _LARGEST_TILE
    is_wide = is_many or (is_few and num_outputs >= 128 * num_processors)
    outputs = 128 if is_wide else 64
    can_double = scale.dim() == 1 and is_few and not is_wide and row_len % (2 * BLOCK) == 0
    columns = 2 * BLOCK if can_double else BLOCK
    num_programs = triton.cdiv(num_outputs, outputs) * triton.cdiv(num_rows, rows)
    most_programs = num_processors * (1 if is_many else _PROGRAMS_EACH)
    num_steps = row_len // columns
    num_splits = num_splits_of(num_programs, most_programs, num_steps) if may_split else 1
    return Tile(
        rows,
        outputs,
        columns,
        num_splits,
        num_warps=8 if is_many else 4,
        num_stages=4 if is_few or is_many else 6,
    )


def launch(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    tile: Tile,
) -> Tensor:
    """The product in a tile, [splits, T, outputs]; float32 where there are several splits."""
    num_rows, (num_outputs, row_len) = len(x.values), weight.shape
    kept = torch.float32 if tile.num_splits > 1 else dtype
    output = torch.empty(tile.num_splits, num_rows, num_outputs, dtype=kept, device=x.device)
    grid = (
        triton.cdiv(num_outputs, tile.outputs),
        tile.num_splits,
        triton.cdiv(num_rows, tile.rows),
    )
    linear_float8_kernel[grid](
        Factors(*x, weight, scale),
        bias,
        output,
        num_rows,
        num_outputs,
        ROW_LEN=row_len,
        HAS_BLOCKS=scale.dim() == 2,
        ROWS=tile.rows,
        OUTPUTS=tile.outputs,
        COLUMNS=tile.columns,
        NUM_SPLITS=tile.num_splits,
        PREFETCHED=_PREFETCHED,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
    return output
