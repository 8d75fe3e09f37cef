"""Owns the gated MLP of the dense families (SwiGLU, Shazeer 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels import gated_linear
from specguide.layers.linear import Linear


@dataclass(frozen=True, eq=False)
class GatedMlp:
    """down(silu(gate(x)) · up(x)); gate and up are one product.

    gate_up: hidden → 2 · intermediate, gate first
    down:    intermediate → hidden
    """

    gate_up: Linear
    down: Linear

    @classmethod
    def empty(
        cls,
        hidden_size: int,
        intermediate_size: int,
        *,
        bias: bool,
        device: torch.device,
        dtype: torch.dtype,
    ) -> GatedMlp:
        """Uninitialised memory, to be filled from a checkpoint."""
        return cls(
            Linear.empty(2 * intermediate_size, hidden_size, bias=bias, device=device, dtype=dtype),
            Linear.empty(hidden_size, intermediate_size, bias=bias, device=device, dtype=dtype),
        )

    def __call__(self, x: Tensor) -> Tensor:
        """[T, hidden] → parts [P, T, hidden], as `Linear.parts` gives them."""
        return self.down.parts(gated_linear(x, self.gate_up.weight, self.gate_up.bias))
