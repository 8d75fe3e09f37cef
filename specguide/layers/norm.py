"""Owns RmsNorm, the root-mean-square norm, and NormKind, which tells its variants apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels import add_rms_norm, norm_into, rms_norm
from specguide.layers.destination import Destination
from specguide.layers.placement import Placement
from specguide.layers.projection import PartialSums
from specguide.layers.quantization import InputFormat, ProjectionInput


@dataclass(frozen=True)
class NormKind:
    """What the norms of a model have in common.

    eps:           added to the mean square
    weight_offset: added to the weights of the checkpoint; 1 where it holds their distance from 1,
                   as Gemma's does
    """

    eps: float
    weight_offset: float = 0.0


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of a norm's weight, which one tensor [D] of the checkpoint is broadcast to."""

    weight: Tensor
    offset: float

    def destination(self) -> Destination:
        shape = (self.weight.shape[-1],)
        if not self.offset:
            return Destination(self.weight, shape)
        return Destination(self.weight, shape, lambda stored: stored.float() + self.offset)


class RmsNorm:
    """x / √(mean(x²) + eps) · weight over the last dimension (Zhang and Sennrich 2019).

    weight: [D], or [heads, D] where each head has its own; float32 where a weight_offset makes
            rounding it cost digits
    output: how the projection that reads the norm wants its input; None: as a tensor
    """

    def __init__(
        self,
        weight: Tensor,
        eps: float,
        parts: Mapping[str, _Part] | None = None,
        output: InputFormat | None = None,
    ) -> None:
        """parts: of `weight`, by the name of the tensor in the checkpoint"""
        self.weight = weight
        self.eps = eps
        self.output = output
        self._parts = parts or {}

    @classmethod
    def create(
        cls,
        place: Placement,
        name: str,
        dim: int,
        kind: NormKind,
        output: InputFormat | None = None,
    ) -> RmsNorm:
        """Uninitialised weights, `name`.weight in the checkpoint."""
        weight = _empty(place, kind, dim)
        part = _Part(weight, kind.weight_offset)
        return cls(weight, kind.eps, {f"{place.prefix}{name}.weight": part}, output)

    @classmethod
    def of_heads(
        cls, place: Placement, num_heads: Mapping[str, int], head_dim: int, kind: NormKind
    ) -> RmsNorm:
        """The heads of several maps; each map has one weight [head_dim] in the checkpoint.

        num_heads: of each map, by its name
        """
        weight = _empty(place, kind, sum(num_heads.values()), head_dim)
        parts = {
            f"{place.prefix}{name}.weight": _Part(rows, kind.weight_offset)
            for name, rows in zip(num_heads, weight.split(list(num_heads.values())), strict=True)
        }
        return cls(weight, kind.eps, parts)

    def add(self, residual: Tensor, product: PartialSums) -> tuple[Tensor, ProjectionInput]:
        """The sum of residual and product, both [T, D], and its norm."""
        if self.output is not None:
            return self.output.of_added_norm(residual, product.parts, self.weight, self.eps)
        return add_rms_norm(residual, product.parts, self.weight, self.eps)

    def into(self, output: Tensor, x: Tensor, row_ids: Tensor | None = None) -> None:
        """The norm of x [T, D], or of x[row_ids], int [T], into output [T, D]."""
        norm_into(output, x, self.weight, self.eps, row_ids)

    def __call__(self, x: Tensor) -> ProjectionInput:
        """x [..., D] → the same shape and dtype, or as `output` has it."""
        if self.output is not None:
            return self.output.of_norm(x, self.weight, self.eps)
        return rms_norm(x, self.weight, self.eps)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return {name: part.destination() for name, part in self._parts.items()}


class NoNorm(RmsNorm):
    """Where a layer is given the norm of the next, and there is none: sums stay as they are."""

    def __init__(self) -> None:
        super().__init__(torch.empty(0), 0.0)

    def add(self, residual: Tensor, product: PartialSums) -> tuple[Tensor, ProjectionInput]:
        """The sum of residual and product, both [T, D], twice."""
        total = residual + product.total(residual.dtype)
        return total, total


def _empty(place: Placement, kind: NormKind, *shape: int) -> Tensor:
    return place.empty(*shape, dtype=torch.float32 if kind.weight_offset else None)
