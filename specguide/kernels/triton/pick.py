"""Owns the Triton kernel of rows_behind, which copies chosen rows of two tensors."""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.device import await_results, overlap

_BLOCK = 1024


@triton.jit
def _pick_kernel(
    normed,
    features,
    first,
    num_behind,
    picked_normed,
    picked_features,
    normed_stride,
    features_stride,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Copy a block of both rows of one stretch."""
    await_results(OVERLAP)
    stretch = tl.program_id(0).to(tl.int64)
    behind = tl.load(num_behind + stretch)
    row = tl.load(first + stretch) + tl.maximum(behind, 0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = column < SIZE
    of_normed = tl.load(normed + row * normed_stride + column, mask=exists)
    of_features = tl.load(features + row * features_stride + column, mask=exists)
    tl.store(picked_normed + stretch * SIZE + column, of_normed, mask=exists)
    tl.store(picked_features + stretch * SIZE + column, of_features, mask=exists)


def rows_behind(
    normed: Tensor, features: Tensor, first: Tensor, num_behind: Tensor
) -> tuple[Tensor, Tensor]:
    """See pointwise.rows_behind."""
    shape = len(first), normed.shape[1]
    picked = normed.new_empty(shape), features.new_empty(shape)
    _pick_kernel[(shape[0], triton.cdiv(shape[1], _BLOCK))](
        normed,
        features,
        first,
        num_behind,
        *picked,
        normed.stride(0),
        features.stride(0),
        SIZE=shape[1],
        BLOCK=_BLOCK,
        **overlap(normed.device),
    )
    return picked
