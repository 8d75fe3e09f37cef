"""Owns the seam between a projection and the form of its weights: Quantization and
ProjectionWeights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from specguide.kernels import Float8Scaling, Peers, gelu_tanh_mul, silu_mul
from specguide.layers.destination import Destination
from specguide.layers.partial_sums import PartialSums

Activation = Literal["silu", "gelu_tanh"]
_GATED: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": silu_mul,
    "gelu_tanh": gelu_tanh_mul,
}

ProjectionInput: TypeAlias = Any
"""A tensor [T, in_features] of the model's dtype, or the result of the projection's `input_format`,
which only that projection's weights can read."""


def activated(gate_up: Tensor, activation: Activation) -> Tensor:
    """activation(gate) · up of [T, 2 · D], gate first → [T, D]."""
    return _GATED[activation](gate_up)


@dataclass(frozen=True)
class MatrixSpec:
    """Describes a matrix that a quantization will hold.

    out_features, in_features: its rows and columns on this rank
    bias:  whether it has one, of `out_features` numbers
    names: full names of the checkpoint's maps in it, such as "model.layers.0.self_attn.q_proj"
    device: where it is held
    dtype: the dtype of inputs and products
    """

    out_features: int
    in_features: int
    bias: bool
    names: tuple[str, ...]
    device: torch.device
    dtype: torch.dtype

    def empty_bias(self, *num: int) -> Tensor | None:
        """An uninitialised bias [*num, out_features]; None if there is none."""
        if not self.bias:
            return None
        return torch.empty(*num, self.out_features, dtype=self.dtype, device=self.device)


class InputFormat(ABC):
    """The form in which a quantization wants its inputs. Inputs are converted in the same kernel as
    the operation before, if possible."""

    @property
    def rounding(self) -> Float8Scaling | None:
        """The float8 rounding that kernels before the product apply to rows; None: they leave plain
        tensors."""
        return None

    @abstractmethod
    def of(self, x: ProjectionInput) -> ProjectionInput:
        """The input made of x [T, in_features]; an x that already has the format is unchanged."""

    @abstractmethod
    def of_norm(self, x: Tensor, weight: Tensor, eps: float) -> ProjectionInput:
        """The input made of `kernels.rms_norm` of x [T, in_features]."""

    @abstractmethod
    def of_added_norm(
        self,
        residual: Tensor,
        product: PartialSums,
        weight: Tensor,
        eps: float,
        peers: Peers | None = None,
    ) -> tuple[Tensor, ProjectionInput]:
        """The sum that `kernels.add_rms_norm` returns, and the input made of its norm."""

    @abstractmethod
    def of_gated(self, gate_up: Tensor, activation: Activation) -> ProjectionInput:
        """The input made of `activated(gate_up, activation)`."""


class ProjectionWeights(ABC):
    """The weights of a linear map in the form of one quantization.

    A quantization implements `destinations`, `rows`, `columns` and `product`; the other products
    build on these, and are overridden if a kernel does better. A product reads nothing back to the
    host, so that it can be captured in a CUDA graph.

    Inputs are tensors. A quantization with an `input_format` also takes inputs of that format.
    """

    @property
    def input_format(self) -> InputFormat | None:
        """The format of inputs; None: they are tensors of the model's dtype."""
        return None

    @abstractmethod
    def destinations(self) -> dict[str, Destination]:
        """Where the checkpoint's tensors go, by the last part of their names ("weight", "bias")."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Self:
        """The weights of the output features `start` … `stop` - 1: a view of the same memory."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> Self:
        """The weights of the input features `start` … `stop` - 1: a view of the same memory,
        without bias."""

    @abstractmethod
    def product(self, x: ProjectionInput) -> Tensor:
        """The product: x [T, in_features] → x · weightᵀ + bias [T, out_features]."""

    def product_parts(self, x: ProjectionInput) -> PartialSums:
        """The `product` in parts, for `RmsNorm.add`."""
        return PartialSums.of(self.product(x))

    def product_gated(
        self, x: ProjectionInput, activation: Activation, wanted: InputFormat | None
    ) -> ProjectionInput:
        """The gated product: x [T, in_features] → activation(gate) · up [T, out_features / 2]. The
        first half of the output features is the gate. wanted: the format that the next projection
        wants; None: a tensor"""
        product = self.product(x)
        return (
            activated(product, activation)
            if wanted is None
            else wanted.of_gated(product, activation)
        )


class Quantization(Protocol):
    """A form in which a checkpoint stores the weights of its projections."""

    def create_weights(self, spec: MatrixSpec) -> ProjectionWeights:
        """Uninitialised memory, to be filled from a checkpoint."""
