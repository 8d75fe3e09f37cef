"""Owns PartialSums, a product that is yet to be summed and scaled."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels import ProductScales, scaled


@dataclass(frozen=True, eq=False)
class PartialSums:
    """A product [T, D] in parts that are yet to be summed.

    Where a product has too few rows to keep a GPU busy, its sum is spread over several programs.
    `RmsNorm.add` sums the parts, and scales them, as it adds them to the residual stream.

    unscaled: [P, T, D]; float32 where P > 1
    scales:   of each part; None: they are scaled
    """

    unscaled: Tensor
    scales: ProductScales | None = None

    @classmethod
    def of(cls, product: Tensor) -> PartialSums:
        """Of a product [T, D] that is summed already."""
        return cls(product[None])

    @property
    def parts(self) -> Tensor:
        """[P, T, D], whose sum over P is the product."""
        return scaled(self.unscaled, self.scales)

    def total(self, dtype: torch.dtype) -> Tensor:
        """The product [T, D]."""
        parts = self.parts
        return (parts[0] if len(parts) == 1 else parts.sum(0)).to(dtype)
