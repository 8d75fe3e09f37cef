"""Owns Float8Input, the input format of float8 products."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from specguide import kernels
from specguide.kernels.float8 import Float8Rows, Float8Scaling
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization.method import Activation, InputFormat, activated


@dataclass(frozen=True)
class Float8Input(InputFormat):
    """Inputs in float8, rounded in the same kernel as the operation before."""

    scaling: Float8Scaling

    @property
    def rounding(self) -> Float8Scaling:
        return self.scaling

    def of(self, x: Tensor | Float8Rows) -> Float8Rows:
        return x if isinstance(x, Float8Rows) else kernels.to_float8(x, self.scaling)

    def of_norm(self, x: Tensor, weight: Tensor, eps: float) -> Float8Rows:
        return kernels.rms_norm_float8(x, weight, eps, self.scaling)

    def of_added_norm(
        self,
        residual: Tensor,
        product: PartialSums,
        weight: Tensor,
        eps: float,
        peers: kernels.Peers | None = None,
    ) -> tuple[Tensor, Float8Rows]:
        parts, scales = product.unscaled, product.scales
        return kernels.add_rms_norm_float8(
            residual, parts, weight, eps, self.scaling, scales, peers
        )

    def of_gated(self, gate_up: Tensor, activation: Activation) -> Float8Rows:
        if activation == "silu":
            return kernels.silu_mul_float8(gate_up, self.scaling)
        return self.of(activated(gate_up, activation))


EACH_ROW = Float8Input(Float8Scaling())
"""Each row has its own scale."""
EACH_GROUP = Float8Input(Float8Scaling(is_grouped=True))
"""Every 128 features of a row have their own scale."""
