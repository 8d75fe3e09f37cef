"""Owns the plain-torch kernels of float8 products: rounding inputs, alone or together with the norm
or activation before, and multiplying.

Numbers are float8 e4m3 (maximum 448, no infinities; Micikevicius et al. 2022) times a scale. Inputs
are rounded token by token, so that a token's output does not depend on the other tokens of the
batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.peers import Peers
from specguide.kernels.pointwise import ProductScales, add_parts, rms_norm, scaled, silu_mul

FLOAT8 = torch.float8_e4m3fn
LARGEST = 448.0
LEAST_ROW = 1e-10
"""Lower bound for the largest number of a row or group, so that a row of zeros gets a scale."""
BLOCK = 128
"""Block size of block scales: the rows and columns of a weight that share a scale, and the features
of an input that do."""


_ADA = (8, 9)


def has_float8(device: torch.device) -> bool:
    """Whether kernels can convert and multiply float8 on this device; a CPU can, slowly."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= _ADA


class Float8Rows(NamedTuple):
    """Rows x ≈ values · scale.

    values: float8 [T, D]
    scale:  float32 [T, 1]; [T, ⌈D / 128⌉] if each group of 128 features has its own scale
    """

    values: Tensor
    scale: Tensor

    @property
    def device(self) -> torch.device:
        """The device that holds them."""
        return self.values.device


class UnroundedRows(NamedTuple):
    """Rows that the product behind rounds, each by its own scale, as it reads them.

    values:  [T, D]
    largest: float32 [T, parts], the largest absolute value of each part of a row
    """

    values: Tensor
    largest: Tensor

    @property
    def device(self) -> torch.device:
        """The device that holds them."""
        return self.values.device


@dataclass(frozen=True, eq=False)
class Float8Scaling:
    """How rows are rounded.

    static_scale: float32 [1], one scale for all tokens; numbers above 448 times it are clamped to
                  that. None: each row's largest number becomes 448
    is_grouped:   every 128 features of a row have their own scale; not with a static_scale
    """

    static_scale: Tensor | None = None
    is_grouped: bool = False


def to_float8(x: Tensor, scaling: Float8Scaling) -> Float8Rows:
    """The rows of x [T, D], rounded."""
    if scaling.static_scale is not None:
        values = rounded(x.float(), scaling.static_scale)
        return Float8Rows(values, scaling.static_scale.expand(len(x), 1))
    dim = x.shape[1]
    group = BLOCK if scaling.is_grouped else dim
    groups = F.pad(x.float(), (0, -dim % group)).unflatten(1, (-1, group))
    scale = scale_of(groups)
    return Float8Rows(rounded(groups, scale).flatten(1)[:, :dim].contiguous(), scale[:, :, 0])


def numbers(rows: Float8Rows) -> Tensor:
    """The numbers that the rows stand for, float32 [T, D]."""
    values, scale = rows.values.float(), rows.scale
    if scale.shape[1] > 1:
        scale = scale.repeat_interleave(BLOCK, 1)[:, : values.shape[1]]
    return values * scale


def scale_of(x: Tensor) -> Tensor:
    """The scale that makes each row's largest number 448: float32 [..., D] → [..., 1]."""
    return x.abs().amax(-1, keepdim=True).clamp_(min=LEAST_ROW) / LARGEST


def rounded(x: Tensor, scale: Tensor) -> Tensor:
    """x · (1 / scale) in float8; numbers that are too large are clamped to the largest."""
    return (x * scale.reciprocal()).clamp_(-LARGEST, LARGEST).to(FLOAT8)


def rms_norm_float8(x: Tensor, weight: Tensor, eps: float, scaling: Float8Scaling) -> Float8Rows:
    """`rms_norm` of x [T, D], rounded to x's dtype and then to float8."""
    return to_float8(rms_norm(x, weight, eps), scaling)


def add_rms_norm_float8(
    residual: Tensor,
    parts: Tensor,
    weight: Tensor,
    eps: float,
    scaling: Float8Scaling,
    scales: ProductScales | None = None,
    peers: Peers | None = None,
    kept: Tensor | None = None,
) -> tuple[Tensor, Float8Rows]:
    """`add_rms_norm`, whose norm is rounded to residual's dtype and then to float8.

    kept: contiguous memory of residual's shape and dtype that also takes the norm as it is before
          it is rounded to float8
    """
    total = add_parts(residual, parts, scales, peers)
    normed = rms_norm(total, weight, eps)
    if kept is not None:
        kept.copy_(normed)
    return total, to_float8(normed, scaling)


def silu_mul_float8(
    gate_up: Tensor, scaling: Float8Scaling, scales: ProductScales | None = None
) -> Float8Rows:
    """`silu_mul` of gate_up [T, 2 · D] · scales, rounded to its dtype and then to float8."""
    return to_float8(silu_mul(scaled(gate_up, scales)).to(gate_up.dtype), scaling)


def linear_float8(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """x · weightᵀ + bias, summed in float32.

    x:      [T, in_features], with group scales if the weight has block scales
    weight: float8 [out_features, in_features]
    scale:  float32 [out_features]; for blocks of 128 × 128 [⌈out_features / 128⌉, in_features /
            128]
    bias:   [out_features]
    Returns [T, out_features] of `dtype`.
    """
    if scale.dim() == 1:
        product = F.linear(x.values.float(), weight.float()) * scale * x.scale
    else:
        inputs = x.values.float() * x.scale.repeat_interleave(BLOCK, 1)
        product = F.linear(inputs, weight.float() * spread(scale, weight.shape[0]))
    return (product if bias is None else product + bias.float()).to(dtype)


def linear_float8_parts(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, ProductScales | None]:
    """`linear_float8` in parts that the caller still has to sum, [P, T, out_features], float32 if
    there are several; and the scales by which their sum still has to be multiplied."""
    return linear_float8(x, weight, scale, bias, dtype)[None], None


def gated_linear_float8(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    scaling: Float8Scaling,
    dtype: torch.dtype,
) -> Float8Rows:
    """`silu_mul_float8` of `linear_float8`: the weight has 2 · D output features, gate first → [T,
    D]."""
    return silu_mul_float8(linear_float8(x, weight, scale, bias, dtype), scaling)


def spread(scale: Tensor, num_rows: int) -> Tensor:
    """The scale of each number, [num_rows, in_features], from scales of blocks."""
    return scale.repeat_interleave(BLOCK, 0)[:num_rows].repeat_interleave(BLOCK, 1)
