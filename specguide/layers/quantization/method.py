"""Owns the seam between a projection and the numbers it multiplies by: Quantization and
ProjectionWeights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import torch
from torch import Tensor

from specguide.kernels import gelu_tanh_mul, silu_mul
from specguide.layers.destination import Destination

Activation = Literal["silu", "gelu_tanh"]
_GATED: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": silu_mul,
    "gelu_tanh": gelu_tanh_mul,
}


@dataclass(frozen=True)
class MatrixSpec:
    """What a quantization is told of a matrix that it is to hold.

    names: of the maps in the checkpoint that lie in it, as "model.layers.0.self_attn.q_proj"
    dtype: of the inputs and products
    """

    out_features: int
    in_features: int
    bias: bool
    names: tuple[str, ...]
    device: torch.device
    dtype: torch.dtype


class ProjectionWeights(ABC):
    """The weights of a linear map in the form in which one quantization holds them.

    A quantization writes `destinations`, `rows`, `columns` and `product`; the other products are
    made from these, and are overridden where a kernel does better. A product reads nothing back to
    the host, so that it can be captured in a CUDA graph.
    """

    @abstractmethod
    def destinations(self) -> dict[str, Destination]:
        """Where the checkpoint's tensors go, by the last part of their names ("weight", "bias")."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Self:
        """Of the output features `start` … `stop` - 1: a view of the same memory."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> Self:
        """Of the input features `start` … `stop` - 1: a view of the same memory, without bias."""

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """x [T, in_features] → x · weightᵀ + bias [T, out_features]."""

    def product_parts(self, x: Tensor) -> Tensor:
        """[T, in_features] → [P, T, out_features], whose sum over P is the product; float32 where
        P > 1."""
        return self.product(x)[None]

    def product_gated(self, x: Tensor, activation: Activation) -> Tensor:
        """[T, in_features] → activation(gate) · up [T, out_features / 2]; the first half of the
        output features is the gate."""
        return _GATED[activation](self.product(x))


class Quantization(Protocol):
    """How a checkpoint holds the weights of its projections."""

    def create_weights(self, spec: MatrixSpec) -> ProjectionWeights:
        """Uninitialised memory, to be filled from a checkpoint."""
