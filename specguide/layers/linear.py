"""Owns Linear: a weight with the memory layout that its device multiplies fastest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide import kernels


@dataclass(frozen=True, eq=False)
class Linear:
    """x · weightᵀ + bias.

    weight: [out_features, in_features]
    bias:   [out_features] or None
    """

    weight: Tensor
    bias: Tensor | None = None

    @classmethod
    def empty(
        cls,
        out_features: int,
        in_features: int,
        *,
        bias: bool,
        device: torch.device,
        dtype: torch.dtype,
    ) -> Linear:
        """Uninitialised memory, to be filled from a checkpoint."""
        weight = empty_weight(out_features, in_features, device=device, dtype=dtype)
        return cls(weight, torch.empty(out_features, device=device, dtype=dtype) if bias else None)

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in_features] → [T, out_features]."""
        return kernels.linear(x, self.weight, self.bias)

    def parts(self, x: Tensor) -> Tensor:
        """[T, in_features] → [P, T, out_features], whose sum over P is the product; for
        `RmsNorm.add`."""
        return kernels.linear_parts(x, self.weight, self.bias)


def empty_weight(
    out_features: int, in_features: int, *, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Uninitialised [out_features, in_features].

    For float32 on a CPU the memory order is input-major: the products of a few tokens, which is
    what decoding does, take a third less time that way.
    """
    if device.type == "cpu" and dtype == torch.float32:
        return torch.empty(in_features, out_features, device=device, dtype=dtype).t()
    return torch.empty(out_features, in_features, device=device, dtype=dtype)
