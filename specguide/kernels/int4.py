"""Owns Int4Matrix, the one form in which all checkpoints with 4-bit weights are held, and the
plain-torch products with it.

A weight is scale · (number - zero), with number and zero in 0 … 15; the columns of a group share
scale and zero within a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.pointwise import silu_mul

PLANES = 4
"""Number of planes in a tile, which is the number of 4-bit numbers in a 16-bit word."""
WIDEST_PLANE = 128
SYMMETRIC_ZERO = 8
_MOST_ELEMENTS = 1 << 22
"""Maximum weights that the plain-torch product unpacks at a time."""


def plane_size(group_size: int) -> int:
    """Number of columns in a plane of a tile. All of them are in one group, so that a product over
    a plane is scaled once."""
    return min(group_size, WIDEST_PLANE)


@dataclass(frozen=True, eq=False)
class Int4Matrix:
    """Numbers of 4 bits in tiles of `PLANES` · width columns, width = plane_size(group_size).

    Bits 4p … 4p + 3 of words[t, row, j] are the number of that row in column t · PLANES · width + p
    · width + j. So the products of a plane read neighbouring columns of their input and have one
    scale per row. The last tile is padded with columns whose input is 0.

    words:      int16 [tiles, out_features, width]
    scales:     [groups, out_features], of a float dtype
    zeros:      uint8 [groups, out_features]; None: all are 8
    group_size: number of columns in a group: 32, 64 or a multiple of 128
    """

    words: Tensor
    scales: Tensor
    zeros: Tensor | None
    group_size: int
    in_features: int

    @classmethod
    def empty(
        cls,
        shape: tuple[int, int],
        group_size: int,
        scale_dtype: torch.dtype,
        device: torch.device,
        *,
        has_zeros: bool,
    ) -> Int4Matrix:
        """An uninitialised matrix. shape: out_features and in_features"""
        out_features, in_features = shape
        width = plane_size(group_size)
        num_tiles = -(-in_features // (PLANES * width))
        grouped = (-(-in_features // group_size), out_features)
        zeros = torch.empty(grouped, dtype=torch.uint8, device=device) if has_zeros else None
        return cls(
            torch.empty(num_tiles, out_features, width, dtype=torch.int16, device=device),
            torch.empty(grouped, dtype=scale_dtype, device=device),
            zeros,
            group_size,
            in_features,
        )

    @property
    def out_features(self) -> int:
        return self.words.shape[1]

    @property
    def tile_size(self) -> int:
        """Number of columns in a tile."""
        return PLANES * self.words.shape[2]

    def rows(self, start: int, stop: int) -> Int4Matrix:
        """A view of the rows `start` … `stop` - 1."""
        zeros = None if self.zeros is None else self.zeros[:, start:stop]
        words, scales = self.words[:, start:stop], self.scales[:, start:stop]
        return Int4Matrix(words, scales, zeros, self.group_size, self.in_features)

    def columns(self, start: int, stop: int) -> Int4Matrix:
        """A view of the columns `start` … `stop` - 1. Each bound must be at the border of both a
        tile and a group, or at the end of the matrix."""
        tiles = slice(start // self.tile_size, -(-stop // self.tile_size))
        groups = slice(start // self.group_size, -(-stop // self.group_size))
        zeros = None if self.zeros is None else self.zeros[groups]
        words, scales = self.words[tiles], self.scales[groups]
        return Int4Matrix(words, scales, zeros, self.group_size, stop - start)

    def dequantized(self, dtype: torch.dtype) -> Tensor:
        """The weights [out_features, in_features], rounded to `dtype` once."""
        numbers = unpack_words(self.words)[:, : self.in_features].to(torch.float32)
        scales, zeros = (_spread(it, self) for it in (self.scales.float(), _zeros(self)))
        return ((numbers - zeros) * scales).to(dtype)


def pack_words(numbers: Tensor, group_size: int) -> Tensor:
    """The words of an Int4Matrix: integers 0 … 15 [out_features, in_features] → int16 [tiles,
    out_features, width]."""
    width = plane_size(group_size)
    missing = -numbers.shape[1] % (PLANES * width)
    tiles = F.pad(numbers.to(torch.int16), (0, missing)).unflatten(1, (-1, PLANES, width))
    words = torch.zeros_like(tiles[:, :, 0])
    for plane in range(PLANES):
        words |= tiles[:, :, plane] << 4 * plane
    return words.transpose(0, 1)


def unpack_words(words: Tensor) -> Tensor:
    """The inverse of `pack_words`, including the padding columns: uint8 [out_features, tiles ·
    PLANES · width]."""
    planes = [(words >> 4 * plane) & 15 for plane in range(PLANES)]
    return torch.stack(planes, 2).to(torch.uint8).transpose(0, 1).flatten(1)


def int4_linear(x: Tensor, weight: Int4Matrix, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias, summed in float32: x [T, in_features] → [T, out_features] of x's
    dtype."""
    step = max(1, _MOST_ELEMENTS // weight.in_features)
    starts = range(0, weight.out_features, step)
    inputs = x.float()
    parts = [
        inputs @ weight.rows(start, start + step).dequantized(torch.float32).t() for start in starts
    ]
    total = torch.cat(parts, 1)
    return (total if bias is None else total + bias.float()).to(x.dtype)


def int4_linear_parts(x: Tensor, weight: Int4Matrix, bias: Tensor | None = None) -> Tensor:
    """`int4_linear` in parts that the caller still has to sum, [P, T, out_features]; float32 if
    there are several."""
    return int4_linear(x, weight, bias)[None]


def int4_gated_linear(x: Tensor, weight: Int4Matrix, bias: Tensor | None = None) -> Tensor:
    """silu_mul(int4_linear(x, weight, bias)): 2 · D rows, gate first → [T, D]."""
    return silu_mul(int4_linear(x, weight, bias))


def _zeros(matrix: Int4Matrix) -> Tensor:
    """The zeros of all groups, float32 [groups, out_features]."""
    if matrix.zeros is None:
        return torch.full_like(matrix.scales, SYMMETRIC_ZERO, dtype=torch.float32)
    return matrix.zeros.float()


def _spread(of_groups: Tensor, matrix: Int4Matrix) -> Tensor:
    """The value of each column's group: [groups, out_features] → [out_features, in_features]."""
    columns = of_groups.t().repeat_interleave(matrix.group_size, 1)
    return columns[:, : matrix.in_features]
