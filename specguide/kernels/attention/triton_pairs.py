"""Owns how the attention kernels read a cache: one number at a time, or two at a time in float8.

A pair of float8 numbers is loaded as one 16-bit number, so that tiles of keys and values come from
shared memory as fast as in half precision, and not byte by byte. The numbers become float16, which
represents every float8 exactly, and for which GPUs have a conversion instruction.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.float8 import FLOAT8

_ADA = (8, 9)


def _unpack(their_bytes: int) -> str:
    """PTX that takes two pairs and converts the number of each that lies in the byte of
    `their_bytes`; see the instruction prmt."""
    return (
        "{ .reg .b32 both; .reg .b16 first, again; "
        f"prmt.b32 both, $1, $1, {their_bytes:#x}; "
        "mov.b32 {first, again}, both; "
        "cvt.rn.f16x2.e4m3x2 $0, first; }"
    )


_UNPACK = _unpack(0x2020), _unpack(0x3131)


@cache
def unpacking(device: torch.device) -> tuple[str, str] | None:
    """PTX for the first and for the second number of a pair; None if the device lacks the
    instruction."""
    can = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _ADA
    return _UNPACK if can else None


def cells(cached: Tensor) -> Tensor:
    """A view of a cache with the elements that a kernel loads: pairs if it is float8."""
    return cached.view(torch.int16) if cached.dtype == FLOAT8 else cached


@triton.jit
def split_pairs(numbers, PAIRED: tl.constexpr):
    """The numbers of even and of odd columns if cells are pairs; else just the numbers."""
    if PAIRED:
        numbers = numbers.reshape(numbers.shape[0], numbers.shape[1] // 2, 2)
    return tl.split(numbers) if PAIRED else (numbers,)


@triton.jit
def join_pairs(tiles, PAIRED: tl.constexpr):
    """The inverse of `split_pairs`."""
    numbers = tiles[0]
    if PAIRED:
        numbers = tl.join(tiles[0], tiles[1]).reshape(numbers.shape[0], 2 * numbers.shape[1])
    return numbers


@triton.jit
def _number(pairs, SECOND: tl.constexpr, UNPACK: tl.constexpr):
    """One number of each pair, float16."""
    if UNPACK is None:
        byte = (pairs >> 8 * SECOND).to(tl.uint8)
        number = byte.to(tl.float8e4nv, bitcast=True).to(tl.float16)
    else:
        number = tl.inline_asm_elementwise(
            UNPACK[SECOND], "=r,r", [pairs], dtype=tl.float16, is_pure=True, pack=2
        )
    return number


@triton.jit
def numbers_of(cells, DTYPE: tl.constexpr, UNPACK: tl.constexpr):
    """The numbers of cells, split as `split_pairs` does."""
    PAIRED: tl.constexpr = cells.dtype == tl.int16
    first = _number(cells, 0, UNPACK).to(DTYPE) if PAIRED else cells.to(DTYPE)
    return (first, _number(cells, 1, UNPACK).to(DTYPE)) if PAIRED else (first,)
