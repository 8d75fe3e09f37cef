"""Owns the launches of the kernels with 4-bit weights: which kernel for how many rows, and in which
tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from specguide.kernels.int4 import PLANES, Int4Matrix
from specguide.kernels.triton import int4_hopper
from specguide.kernels.triton.activation import silu_mul
from specguide.kernels.triton.device import num_multiprocessors, overlap
from specguide.kernels.triton.int4_kernels import (
    Int4Pointers,
    dequantize_kernel,
    int4_linear_kernel,
)
from specguide.kernels.triton.int4_planes import unpacking

_MOST_ROWS = 256
"""Maximum rows for these kernels. With more rows, and without the kernel for Hopper, the weights
are first converted to floats in memory, and a library multiplies them."""
_MOST_FLOAT_BYTES = 128 << 20
"""Maximum bytes of weights that are floats in memory at a time."""
_LARGEST_TILE = 128
"""Maximum rows per program."""
_FEW_ROWS = 16
"""Up to this many rows several programs share a multiprocessor, and one program computes both gate
and up; a program with more rows has a multiprocessor to itself."""
_FEWEST_ROWS = 8
"""Up to this many rows a program for gate and up has tiles of 8 rows and half the features; so has
a product for which programs with more features would be too few."""
_MOST_SPLITS = 8
_FEWEST_TILES = 2
"""Minimum tiles per program of the kernel for Hopper."""
_SHARED_BYTES = 226 << 10
"""Bytes of shared memory on a multiprocessor of a Hopper GPU."""


@dataclass(frozen=True)
class Int4Tile:
    """What a program computes, and how.

    rows:       rows of the input
    block_out:  features; gates and ups together if `is_paired`
    num_splits: programs over which the sum of one feature is spread
    step:       maximum words of a feature that are read at a time
    is_folded:  weights are scaled, and rounded to the input's dtype, before they are multiplied;
                else the sums of each group are scaled
    is_paired:  gates and ups are one product; else two
    """

    rows: int
    block_out: int
    num_splits: int
    num_warps: int
    num_stages: int
    step: int
    is_folded: bool
    is_paired: bool = False


def int4_linear(x: Tensor, weight: Int4Matrix, bias: Tensor | None = None) -> Tensor:
    """See the twin in specguide.kernels.int4."""
    return _product(x, weight, bias)[0]


def int4_linear_parts(x: Tensor, weight: Int4Matrix, bias: Tensor | None = None) -> Tensor:
    """See the twin in specguide.kernels.int4."""
    return _product(x, weight, bias, may_split=True)


def int4_gated_linear(x: Tensor, weight: Int4Matrix, bias: Tensor | None = None) -> Tensor:
    """See the twin in specguide.kernels.int4."""
    hopper_takes = partial(int4_hopper.takes, x, weight)
    is_left_to_another = _is_few(x) and not hopper_takes(is_gated=False)
    if hopper_takes(is_gated=True) or is_left_to_another:
        return _product(x, weight, bias, is_gated=True)[0]
    return silu_mul(int4_linear(x, weight, bias))


def _product(
    x: Tensor,
    weight: Int4Matrix,
    bias: Tensor | None,
    *,
    is_gated: bool = False,
    may_split: bool = False,
) -> Tensor:
    """The product in its best tile, [splits, T, outputs]."""
    num_splits = hopper_splits(x, weight, is_gated=is_gated, may_split=may_split)
    if num_splits is not None:
        output = int4_hopper.launch_if_compiled(x, weight, bias, num_splits, is_gated=is_gated)
        if output is not None:
            return output
    if not _is_few(x):
        return _library_product(x, weight, bias)[None]
    tile = choose_tile(x, weight, is_gated=is_gated, may_split=may_split)
    return launch(x, weight, bias, tile, is_gated=is_gated)


def hopper_splits(
    x: Tensor, weight: Int4Matrix, *, is_gated: bool = False, may_split: bool = False
) -> int | None:
    """Number of splits for the kernel for Hopper, each of some tiles. None if the kernel cannot
    multiply this, or if its programs, one per multiprocessor, would leave more than a third of the
    GPU idle with any number of splits."""
    if not int4_hopper.takes(x, weight, is_gated=is_gated):
        return None
    num_outputs = weight.out_features // (2 if is_gated else 1)
    tile = int4_hopper.choose_tile(x, weight, is_gated=is_gated)
    num_programs = math.prod(tile.grid(x.shape[0], num_outputs))
    places = num_multiprocessors(x.device)
    num_splits = _num_splits(num_programs, weight, places) if may_split else 1
    if 3 * num_splits * num_programs < 2 * places:
        return None
    most = max(1, weight.words.shape[0] // _FEWEST_TILES)
    return _num_splits(num_programs, weight, places, min(num_splits, most))


def _library_product(x: Tensor, weight: Int4Matrix, bias: Tensor | None) -> Tensor:
    """The library's product; weights are converted to floats some features at a time."""
    num_outputs = weight.out_features
    step = max(1, _MOST_FLOAT_BYTES // (weight.in_features * x.element_size()))
    if step >= num_outputs:
        return F.linear(x, dequantized(weight, x.dtype), bias)
    output = torch.empty(x.shape[0], num_outputs, dtype=x.dtype, device=x.device)
    for start in range(0, num_outputs, step):
        part = slice(start, min(start + step, num_outputs))
        floats = dequantized(weight.rows(part.start, part.stop), x.dtype)
        torch.mm(x, floats.t(), out=output[:, part])
    return output if bias is None else output.add_(bias)


def dequantized(weight: Int4Matrix, dtype: torch.dtype) -> Tensor:
    """See Int4Matrix.dequantized."""
    shape = weight.out_features, weight.in_features
    output = torch.empty(shape, dtype=dtype, device=weight.words.device)
    num_tiles = weight.words.shape[0]
    block = 32
    dequantize_kernel[(num_tiles, triton.cdiv(weight.out_features, block))](
        weight.words,
        weight.scales,
        weight.zeros,
        output,
        weight.out_features,
        weight.words.stride(0),
        weight.scales.stride(0),
        IN_FEATURES=weight.in_features,
        GROUP=weight.group_size,
        WIDTH=weight.words.shape[2],
        BLOCK_OUT=block,
        num_warps=4,
        **overlap(output.device),
    )
    return output


def _is_few(x: Tensor) -> bool:
    return x.shape[0] <= _MOST_ROWS and x.element_size() == 2 and x.stride(1) == 1


def choose_tile(
    x: Tensor, weight: Int4Matrix, *, is_gated: bool = False, may_split: bool = False
) -> Int4Tile:
    """The tile for products of these shapes; the choices were the fastest on an H200.

    A product of few rows takes as long as reading the weights, so programs are many and small. With
    more rows the tensor cores are busy and each program reads all of the input, so programs have
    many features. With many rows a weight is scaled once for all rows of a program.
    """
    is_few = x.shape[0] <= _FEW_ROWS
    multiprocessors = num_multiprocessors(x.device)
    is_fewest = x.shape[0] <= _FEWEST_ROWS and (
        is_gated or (may_split and _leaves_idle(weight, 2 * multiprocessors))
    )
    rows = min(_LARGEST_TILE, max(8 if is_fewest else 16, triton.next_power_of_2(x.shape[0])))
    is_many = rows == _LARGEST_TILE
    is_paired = is_gated and not is_few
    num_outputs = weight.out_features // (2 if is_gated and is_few else 1)
    if is_few:
        block_out = 32 if is_fewest else 64
    else:
        block_out = 128 if not is_many or num_outputs < 1024 else 256
    num_programs = triton.cdiv(num_outputs, block_out) * triton.cdiv(x.shape[0], rows)
    most_programs = multiprocessors * (3 if is_fewest else 2 if is_few else 1)
    num_splits = _num_splits(num_programs, weight, most_programs) if may_split else 1
    return Int4Tile(
        rows,
        block_out,
        num_splits,
        num_warps=block_out // 16,
        num_stages=4 if is_many or (is_fewest and not is_gated) else 3,
        step=128 if is_few else 32 if is_many else 64,
        is_folded=is_many,
        is_paired=is_paired,
    )


def _leaves_idle(weight: Int4Matrix, most_programs: int) -> bool:
    """Whether there are fewer programs of 64 features than three quarters of `most_programs`."""
    num_programs = triton.cdiv(weight.out_features, 64)
    num_splits = _num_splits(num_programs, weight, most_programs)
    return 4 * num_splits * num_programs < 3 * most_programs


def _num_splits(
    num_programs: int, weight: Int4Matrix, most_programs: int, most: int = _MOST_SPLITS
) -> int:
    """Number of programs, at most `most`, over which each sum may be spread before there are too
    many programs."""
    num_tiles = weight.words.shape[0]
    possible = [num for num in range(1, most + 1) if num_tiles % num == 0]
    return max(num for num in possible if num == 1 or num * num_programs <= most_programs)


def num_stages_of(step: int, num_features: int, rows: int) -> int:
    """Number of stages with which the tiles of two programs fit on a multiprocessor. num_features:
    of gates and ups together"""
    stage = 2 * step * (num_features + PLANES * rows)
    return min(4, _SHARED_BYTES // 2 // stage)


def _pointers(weight: Int4Matrix) -> Int4Pointers:
    steps = weight.words.stride(0), weight.scales.stride(0)
    return Int4Pointers(weight.words, weight.scales, weight.zeros, *steps)


def launch(
    x: Tensor,
    weight: Int4Matrix,
    bias: Tensor | None,
    tile: Int4Tile,
    *,
    is_gated: bool = False,
) -> Tensor:
    """The product in a tile, [splits, T, outputs]; float32 where there are several splits."""
    num_rows, num_outputs = x.shape[0], weight.out_features // (2 if is_gated else 1)
    dtype = torch.float32 if tile.num_splits > 1 else x.dtype
    output = torch.empty(tile.num_splits, num_rows, num_outputs, dtype=dtype, device=x.device)
    num_features = tile.block_out // (2 if tile.is_paired else 1)
    blocks = triton.cdiv(num_rows, tile.rows), triton.cdiv(num_outputs, num_features)
    unpack, form = unpacking(x.dtype, x.device)
    int4_linear_kernel[(*blocks, tile.num_splits)](
        x,
        _pointers(weight),
        bias,
        output,
        num_rows,
        num_outputs,
        x.stride(0),
        IN_FEATURES=weight.in_features,
        GROUP=weight.group_size,
        WIDTH=weight.words.shape[2],
        GATED=is_gated and not tile.is_paired,
        ROWS=tile.rows,
        BLOCK_OUT=tile.block_out,
        NUM_SPLITS=tile.num_splits,
        UNPACK=unpack,
        FORM=form,
        STEP=min(tile.step, weight.words.shape[2]),
        FOLDED=tile.is_folded,
        PAIRED=tile.is_paired,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
    return output
