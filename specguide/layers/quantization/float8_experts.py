"""Owns experts in float8: Float8Experts, whose products take rounded inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide import kernels
from specguide.kernels.experts import ExpertMatrices, GateLimits, Routing
from specguide.kernels.float8 import Float8Rows, UnroundedRows
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization.experts import BothForms, ExpertWeights
from specguide.layers.quantization.float8_input import Float8Input
from specguide.layers.quantization.method import Activation, InputFormat, ProjectionInput


@dataclass(frozen=True)
class Float8Beside(InputFormat):
    """Inputs as they are, which a router reads, and beside them in float8, for its experts. One
    kernel writes both."""

    float8: Float8Input

    def of(self, x: Tensor | BothForms) -> BothForms:
        return x if isinstance(x, BothForms) else BothForms(x, self.float8.of(x), self.float8)

    def of_norm(self, x: Tensor, weight: Tensor, eps: float) -> BothForms:
        return self.of(kernels.rms_norm(x, weight, eps))

    def of_added_norm(
        self,
        residual: Tensor,
        product: PartialSums,
        weight: Tensor,
        eps: float,
        peers: kernels.Peers | None = None,
    ) -> tuple[Tensor, BothForms]:
        parts, scales = product.unscaled, product.scales
        plain = torch.empty(residual.shape, dtype=residual.dtype, device=residual.device)
        total, rows = kernels.add_rms_norm_float8(
            residual, parts, weight, eps, self.float8.scaling, scales, peers, plain
        )
        return total, BothForms(plain, rows, self.float8)

    def of_gated(self, gate_up: Tensor, activation: Activation) -> BothForms:
        return self.of(kernels.silu_mul(gate_up))


@dataclass(frozen=True, eq=False, kw_only=True)
class Float8Experts(ExpertWeights):
    """Experts in float8. Inputs are always rounded, however few they are, so that a token's numbers
    do not depend on how many tokens a pass has.

    input: how inputs are rounded
    dtype: the dtype of products
    """

    matrices: ExpertMatrices
    input: Float8Input
    dtype: torch.dtype

    @property
    def input_format(self) -> Float8Input:
        return self.input

    def gated(
        self,
        x: Tensor | Float8Rows,
        routing: Routing,
        limits: GateLimits | None,
        wanted: InputFormat | None = None,
    ) -> ProjectionInput:
        rows, scaling = self.input.of(x), None if wanted is None else wanted.rounding
        return kernels.gated_experts_float8(
            rows, self.matrices, routing, limits, scaling, self.dtype
        )

    def weighted(self, inner: Tensor | Float8Rows | UnroundedRows, routing: Routing) -> Tensor:
        rows = inner if isinstance(inner, UnroundedRows) else self.input.of(inner)
        return kernels.expert_parts_float8(rows, self.matrices, routing, self.dtype)
