"""Owns the launch of the 4-bit kernel for Hopper GPUs, and the choice of when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import triton
from torch import Tensor

from specguide.kernels.int4 import Int4Matrix
from specguide.kernels.triton import hopper
from specguide.kernels.triton.device import num_multiprocessors, overlap

_FEWEST_ROWS, _MOST_ROWS, _MOST_GATED_ROWS = 33, 2048, 64
"""Minimum and maximum rows for which this kernel is faster, and the maximum for a gated product."""
_BLOCK = 64
"""Features of a group of warps, and words of a step."""
_STAGES = 2
"""Number of steps in a program's shared memory; with more, other kernels would find no room."""


@dataclass(frozen=True)
class Tile:
    """What a program computes.

    rows:      rows of the product
    groups:    groups of four warps, each of which multiplies 64 features
    registers: registers per thread when a program begins, and of a thread that multiplies
    """

    rows: int
    groups: int
    registers: tuple[int, int]
    is_gated: bool = False

    @property
    def num_outputs(self) -> int:
        """Number of features of the product."""
        return self.groups * _BLOCK // (2 if self.is_gated else 1)

    def grid(self, num_rows: int, num_outputs: int) -> tuple[int, int]:
        """Numbers of programs along rows and features, where sums are not split."""
        return triton.cdiv(num_rows, self.rows), num_outputs // self.num_outputs


_OF_FEW = Tile(64, 2, (96, 128))
_OF_FEW_GATED = Tile(64, 4, (96, 112), is_gated=True)
_NARROW = Tile(128, 2, (112, 152))
_WIDE = Tile(128, 4, (96, 112))
_attempts = hopper.Attempts("4-bit weights")


def takes(x: Tensor, weight: Int4Matrix, *, is_gated: bool) -> bool:
    """Whether the kernel can multiply these, and is faster than the others for so many rows."""
    return (
        _FEWEST_ROWS <= x.shape[0] <= (_MOST_GATED_ROWS if is_gated else _MOST_ROWS)
        and x.dtype == torch.bfloat16
        and _has_shape(weight, is_gated=is_gated)
        and hopper.is_aligned(x)
        and hopper.is_aligned(weight.words[0])
        and hopper.runs_on(x.device, "int4_hopper_kernels")
    )


def _has_shape(weight: Int4Matrix, *, is_gated: bool) -> bool:
    num_features = _NARROW.num_outputs * (2 if is_gated else 1)
    return (
        weight.zeros is None
        and weight.group_size % _BLOCK == 0
        and weight.scales.element_size() == 2
        and weight.out_features % num_features == 0
    )


def choose_tile(x: Tensor, weight: Int4Matrix, *, is_gated: bool) -> Tile:
    """The tile for products of these shapes; the choice was the fastest on an H200. Programs with
    many rows read less of the input if they have more features, unless there would be fewer
    programs than multiprocessors."""
    if is_gated:
        return _OF_FEW_GATED
    if x.shape[0] <= _OF_FEW.rows:
        return _OF_FEW
    num_blocks, num_narrow = _NARROW.grid(x.shape[0], weight.out_features)
    is_wide = num_blocks * num_narrow > num_multiprocessors(x.device)
    return _WIDE if is_wide and weight.out_features % _WIDE.num_outputs == 0 else _NARROW


def launch_if_compiled(
    x: Tensor, weight: Int4Matrix, bias: Tensor | None, num_splits: int, *, is_gated: bool
) -> Tensor | None:
    """`launch`; None if the kernel does not compile."""
    return _attempts.result(
        choose_tile(x, weight, is_gated=is_gated),
        partial(launch, x, weight, bias, num_splits, is_gated=is_gated),
    )


def launch(
    x: Tensor, weight: Int4Matrix, bias: Tensor | None, num_splits: int, *, is_gated: bool
) -> Tensor:
    """The product, [splits, T, outputs]; float32 where there are several splits.

    num_splits: programs over which the sum of one feature is spread; it divides the number of tiles
    """
    from specguide.kernels.triton.int4_hopper_kernels import int4_hopper_kernel

    tile = choose_tile(x, weight, is_gated=is_gated)
    num_rows, num_outputs = x.shape[0], weight.out_features // (2 if is_gated else 1)
    dtype = torch.float32 if num_splits > 1 else x.dtype
    output = torch.empty(num_splits, num_rows, num_outputs, dtype=dtype, device=x.device)
    num_tiles, num_features, width = weight.words.shape
    tile_rows = weight.words.stride(0) // width
    lines = (num_tiles - 1) * tile_rows + num_features
    registers, registers_to_multiply = tile.registers
    int4_hopper_kernel[(*tile.grid(num_rows, num_outputs), num_splits)](
        hopper.blocks(weight.words, _BLOCK, (lines, width), width),
        hopper.blocks(x, tile.rows, x.shape, x.stride(0)),
        weight.scales,
        bias,
        output,
        num_rows,
        num_outputs,
        tile_rows,
        weight.scales.stride(0),
        IN_FEATURES=weight.in_features,
        GROUP=weight.group_size,
        WIDTH=width,
        NUM_SPLITS=num_splits,
        GATED=is_gated,
        GROUPS=tile.groups,
        STAGES=_STAGES,
        REGISTERS=registers_to_multiply,
        num_warps=4,
        maxnreg=registers,
        **overlap(x.device),
    )
    return output
