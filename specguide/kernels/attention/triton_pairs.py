"""Owns how attention's kernels read a cache: one number at a time, or in float8 two.

A pair of float8 numbers is loaded as one number of 16 bits, so that tiles of keys and values come
from shared memory as those in half precision do, and not byte by byte. Its numbers become float16,
which holds all of float8 exactly, and for which a GPU has an instruction.
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
    """PTX that takes two pairs and gives the number of each that lies in the byte of `their_bytes`;
    see prmt."""
    return (
        "{ .reg .b32 both; .reg .b16 first, again; "
        f"prmt.b32 both, $1, $1, {their_bytes:#x}; "
        "mov.b32 {first, again}, both; "
        "cvt.rn.f16x2.e4m3x2 $0, first; }"
    )


_UNPACK = _unpack(0x2020), _unpack(0x3131)


@cache
def unpacking(device: torch.device) -> tuple[str, str] | None:
    """PTX that gives a pair's first, and its second number; None where the device does not know
    it."""
    can = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _ADA
    return _UNPACK if can else None


def cells(cached: Tensor) -> Tensor:
    """A view of a cache as it is loaded: of pairs where it is float8."""
    return cached.view(torch.int16) if cached.dtype == FLOAT8 else cached


@triton.jit
def split_pairs(numbers, PAIRED: tl.constexpr):
    """The numbers of even and of odd columns where cells are pairs; else the numbers alone."""
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
