"""Owns PartialSums, a product that still has to be summed and scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specguide.kernels import Peers, ProductScales, scaled, sum_over_ranks
from specguide.parallel import ONE_RANK, Ranks


@dataclass(frozen=True, eq=False)
class PartialSums:
    """A product [T, D] in parts that still have to be summed.

    If a product has too few rows to keep a GPU busy, its sum is spread over several programs.
    `RmsNorm.add` sums and scales the parts while it adds them to the residual stream.

    unscaled: [P, T, D]; float32 if P > 1
    scales:   scales of each part; None: the parts are already scaled
    ranks:    the ranks whose products still have to be added, too
    """

    unscaled: Tensor
    scales: ProductScales | None = None
    ranks: Ranks = ONE_RANK

    @classmethod
    def of(cls, product: Tensor) -> PartialSums:
        """A product [T, D] that is already summed, as a single part."""
        return cls(product[None])

    @property
    def parts(self) -> Tensor:
        """The scaled parts [P, T, D], whose sum over P is the product."""
        return scaled(self.unscaled, self.scales)

    def total(self, dtype: torch.dtype) -> Tensor:
        """The product [T, D]."""
        product, peers = self.with_peers(dtype)
        if peers is not None:
            return sum_over_ranks(product.parts, peers)
        parts = product.parts
        return (parts[0] if len(parts) == 1 else parts.sum(0)).to(dtype)

    def with_peers(self, dtype: torch.dtype) -> tuple[PartialSums, Peers | None]:
        """The parts that still have to be summed, and the peers to sum with; None: the ranks'
        products have been summed here.

        dtype: the dtype of the summed products
        """
        if self.ranks.size == 1:
            return self, None
        collectives = self.ranks.collectives
        num_rows, dim = self.unscaled.shape[1:]
        peers = collectives.peers(num_rows, dim, dtype)
        alone = replace(self, ranks=ONE_RANK)
        if peers is not None:
            return alone, peers
        return PartialSums.of(collectives.sum(alone.total(dtype))), None
