"""Owns when the kernel of weights of 4 bits for Hopper GPUs runs, and its launch."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from specguide.kernels.int4 import Int4Matrix
from specguide.kernels.triton import hopper
from specguide.kernels.triton.device import overlap

_FEWEST_ROWS, _MOST_ROWS = 33, 64
"""What its programs have room for, and how few leave it the faster one."""
BLOCK_OUT = 128
"""Features of a program, of gates and ups each."""
_BLOCK = 64
"""Rows, features and words of what is copied to shared memory at a time."""
_STAGES = 2
"""Steps that fit in a program's shared memory; with more, other kernels would find no room."""
_REGISTERS = 96
"""Of a thread as a program begins."""
_REGISTERS_TO_MULTIPLY = {True: 112, False: 128}
"""Of a thread that multiplies, of gates and ups and of others."""
_attempts = hopper.Attempts("weights of 4 bits")


def takes(x: Tensor, weight: Int4Matrix, *, is_gated: bool) -> bool:
    """Whether the kernel can multiply these, and is the faster one for so many rows."""
    return (
        _FEWEST_ROWS <= x.shape[0] <= _MOST_ROWS
        and x.dtype == torch.bfloat16
        and _has_shape(weight, is_gated=is_gated)
        and hopper.is_aligned(x)
        and hopper.is_aligned(weight.words[0])
        and hopper.runs_on(x.device, "int4_hopper_kernels")
    )


def _has_shape(weight: Int4Matrix, *, is_gated: bool) -> bool:
    return (
        weight.zeros is None
        and weight.group_size % _BLOCK == 0
        and weight.scales.element_size() == 2
        and weight.out_features % (BLOCK_OUT * (2 if is_gated else 1)) == 0
    )


def launch_if_compiled(
    x: Tensor, weight: Int4Matrix, bias: Tensor | None, num_splits: int, *, is_gated: bool
) -> Tensor | None:
    """`launch`; None if the kernel does not compile."""
    return _attempts.result(
        is_gated, partial(launch, x, weight, bias, num_splits, is_gated=is_gated)
    )


def launch(
    x: Tensor, weight: Int4Matrix, bias: Tensor | None, num_splits: int, *, is_gated: bool
) -> Tensor:
    """[splits, T, outputs]; float32 where there are several splits.

    num_splits: programs over which the sum of one feature is spread; it divides the tiles
    """
    from specguide.kernels.triton.int4_hopper_kernels import int4_hopper_kernel

    num_rows, num_outputs = x.shape[0], weight.out_features // (2 if is_gated else 1)
    dtype = torch.float32 if num_splits > 1 else x.dtype
    output = torch.empty(num_splits, num_rows, num_outputs, dtype=dtype, device=x.device)
    num_tiles, num_features, width = weight.words.shape
    tile_rows = weight.words.stride(0) // width
    lines = (num_tiles - 1) * tile_rows + num_features
    grid = -(-num_rows // _BLOCK), num_outputs // BLOCK_OUT, num_splits
    int4_hopper_kernel[grid](
        hopper.blocks(weight.words, _BLOCK, (lines, width), width),
        hopper.blocks(x, _BLOCK, x.shape, x.stride(0)),
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
        STAGES=_STAGES,
        REGISTERS=_REGISTERS_TO_MULTIPLY[is_gated],
        num_warps=4,
        maxnreg=_REGISTERS,
        **overlap(x.device),
    )
    return output
