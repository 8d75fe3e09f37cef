"""Owns the plain-torch kernels of experts whose weights are float8. Their inputs are rounded to
float8, too: those of gates and ups token by token, those of the maps behind pair by pair."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.experts import ExpertMatrices, GateLimits, Routing, gate, weighted
from specguide.kernels.float8 import (
    Float8Rows,
    Float8Scaling,
    UnroundedRows,
    numbers,
    to_float8,
)


def gated_experts_float8(
    x: Float8Rows,
    matrices: ExpertMatrices,
    routing: Routing,
    limits: GateLimits | None,
    scaling: Float8Scaling | None,
    dtype: torch.dtype,
) -> Tensor | Float8Rows | UnroundedRows:
    """`gated_experts` of rows x [T, in]: summed and activated in float32, then rounded to `dtype`,
    and to float8 where there is a scaling → [T · k, out / 2]. Rounding may be left to
    `expert_parts_float8`, which gives the same numbers."""
    inner = gate(_products(x, matrices, routing), limits).to(dtype)
    return inner if scaling is None else to_float8(inner, scaling)


def expert_parts_float8(
    inner: Float8Rows | UnroundedRows,
    matrices: ExpertMatrices,
    routing: Routing,
    dtype: torch.dtype,
) -> Tensor:
    """`expert_parts` of rows inner [T · k, in] → [k, T, out] of `dtype` or float32, yet to be
    summed over k."""
    if isinstance(inner, UnroundedRows):
        inner = to_float8(inner.values, Float8Scaling())
    return weighted(_products(inner, matrices, routing), routing).to(dtype)


def _products(x: Float8Rows, matrices: ExpertMatrices, routing: Routing) -> Tensor:
    """The products of all pairs, float32."""

    def product(rows: Tensor, expert: int) -> Tensor:
        bias = None if matrices.bias is None else matrices.bias[expert].float()
        return F.linear(rows, matrices.matrix(expert, torch.float32), bias)

    return routing.products(numbers(x), product)
