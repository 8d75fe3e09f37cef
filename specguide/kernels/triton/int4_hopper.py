"""Owns when the kernel of weights of 4 bits for Hopper GPUs runs, and its launch.

It is written in Gluon, which changes from one Triton to the next. Where it cannot be imported or
compiled, the kernel that runs anywhere does its work.
"""

from __future__ import annotations

import warnings
from contextvars import Context, copy_context
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from specguide.kernels.int4 import Int4Matrix
from specguide.kernels.triton.device import overlap

_HOPPER = (9, 0)
_FEWEST_ROWS, _MOST_ROWS = 33, 64
"""What its programs have room for, and how few leave it the faster one."""
BLOCK_OUT = 128
"""Features of a program, of gates and ups each."""
_BLOCK = 64
"""Rows, features and words of what is copied to shared memory at a time."""
_ALIGNMENT = 16
"""In bytes, of all lines that are copied so."""


def takes(x: Tensor, weight: Int4Matrix, *, is_gated: bool) -> bool:
    """Whether the kernel can multiply these, and is the faster one for so many rows."""
    return (
        _FEWEST_ROWS <= x.shape[0] <= _MOST_ROWS
        and x.dtype == torch.bfloat16
        and _has_shape(weight, is_gated=is_gated)
        and _is_aligned(x)
        and _is_aligned(weight.words[0])
        and runs_on(x.device)
    )


def _has_shape(weight: Int4Matrix, *, is_gated: bool) -> bool:
    return (
        weight.zeros is None
        and weight.group_size % _BLOCK == 0
        and weight.scales.element_size() == 2
        and weight.out_features % (BLOCK_OUT * (2 if is_gated else 1)) == 0
    )


def _is_aligned(lines: Tensor) -> bool:
    num_bytes = lines.stride(0) * lines.element_size()
    is_aligned = num_bytes % _ALIGNMENT == 0 and lines.data_ptr() % _ALIGNMENT == 0
    return is_aligned and lines.stride(1) == 1


@cache
def runs_on(device: torch.device) -> bool:
    """Whether the device and the installed Triton can."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != _HOPPER:
        return False
    try:
        import specguide.kernels.triton.int4_hopper_kernels  # noqa: F401
    except (ImportError, AttributeError):
        return False
    return True


class _Compiler:
    """Remembers what it has said so far.

    has_refused: some kernel
    accepted:    kernels: the one that is gated, the one that is not
    """

    has_refused = False
    accepted: ClassVar[set[bool]] = set()


def launch_if_compiled(
    x: Tensor, weight: Int4Matrix, bias: Tensor | None, num_splits: int, *, is_gated: bool
) -> Tensor | None:
    """`launch`; None if the kernel does not compile, which is tried and told once.

    A context of its own has it compiled at once, where others are compiled on threads whose errors
    nobody here would see.
    """
    if _Compiler.has_refused:
        return None
    context = copy_context() if is_gated in _Compiler.accepted else Context()
    try:
        output = context.run(launch, x, weight, bias, num_splits, is_gated=is_gated)
        _Compiler.accepted.add(is_gated)
        return output
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        _Compiler.has_refused = True
        warnings.warn(
            "the faster kernel of weights of 4 bits does not compile with this version of Triton, "
            f"another one runs: {error}",
            stacklevel=2,
        )
        return None


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
        _blocks(weight.words, (lines, width), width),
        _blocks(x, x.shape, x.stride(0)),
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
        STAGES=3 if is_gated else 4,
        num_warps=4,
        **overlap(x.device),
    )
    return output


def _blocks(values: Tensor, shape: tuple[int, ...], stride: int) -> Any:
    """What copies blocks of a matrix to shared memory; columns that it lacks are 0 there."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    return TensorDescriptor(values, list(shape), [stride, 1], [_BLOCK, _BLOCK], layout)
