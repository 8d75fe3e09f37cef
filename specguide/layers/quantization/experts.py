"""Owns ExpertWeights, the seam between a layer's experts and the form of their weights, and the
functions that make it from a quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from specguide import kernels
from specguide.errors import CheckpointError
from specguide.kernels.experts import AnyExperts, GateLimits, Routing, gate, weighted
from specguide.layers.destination import Destination
from specguide.layers.quantization.method import (
    InputFormat,
    MatrixSpec,
    ProjectionInput,
    ProjectionWeights,
    Quantization,
)


class BothForms(NamedTuple):
    """The input of a layer of experts: as it is, and in the format that its experts want.

    format: that format; None: they want it as it is
    """

    plain: Tensor
    wanted: ProjectionInput
    format: InputFormat | None

    def of(self, format: InputFormat | None) -> ProjectionInput:
        """The input in another projection's format, as far as it is there; else as it is."""
        return self.wanted if format == self.format else self.plain


@dataclass(frozen=True, eq=False)
class ExpertWeights:
    """One matrix for each expert of a layer, in the form of one quantization.

    Across ranks each rank has all experts, which are cut like projections: gates and ups by output
    features, the maps behind them by input features.

    experts:  each expert's weights, a view of `matrices`; empty if a checkpoint has no separate
              tensors for each expert
    matrices: the weights of all experts, in the form that fused kernels read; None on a CPU, where
              experts are computed one after another
    """

    experts: tuple[ProjectionWeights, ...]
    matrices: AnyExperts | None = None

    def part(self, expert: int, start: int, stop: int) -> dict[str, Destination]:
        """Where a map's tensors go, by the last part of their names. The map consists of the output
        features `start` … `stop` - 1 of one expert. Raises CheckpointError for a format without
        experts."""
        if not self.experts:
            raise CheckpointError(
                "'quantization_config': the experts of this architecture are not supported in this "
                "format"
            )
        return self.experts[expert].rows(start, stop).destinations()

    @property
    def input_format(self) -> InputFormat | None:
        """The format of inputs; None: they are tensors. Tensors are always accepted."""
        return None

    def gated(
        self,
        x: ProjectionInput,
        routing: Routing,
        limits: GateLimits | None,
        wanted: InputFormat | None = None,
    ) -> ProjectionInput:
        """The gated product: x [T, in_features] → activation(gate) · up [T · k, out_features / 2],
        with k experts for each token. The first half of the output features is the gate.

        wanted: the format that the maps behind prefer; the result may also be a tensor
        """
        if self.matrices is not None:
            return kernels.gated_experts(x, self.matrices, routing, limits)
        return gate(routing.products(x, self._product), limits)

    def weighted(self, inner: ProjectionInput, routing: Routing) -> Tensor:
        """The weighted products: inner [T · k, in_features] → [k, T, out_features]. Their sum over
        k is the output for each token."""
        if self.matrices is not None:
            return kernels.expert_parts(inner, self.matrices, routing)
        return weighted(routing.products(inner, self._product), routing)

    def _product(self, x: Tensor, expert: int) -> Tensor:
        return self.experts[expert].product(x)


@runtime_checkable
class HoldsExperts(Protocol):
    """A quantization that stores the matrices of all experts together."""

    def create_experts(self, specs: Sequence[MatrixSpec]) -> ExpertWeights:
        """Uninitialised memory for a matrix of each expert, all of one shape."""


def create_experts(quantization: Quantization, specs: Sequence[MatrixSpec]) -> ExpertWeights:
    """Uninitialised weights with one matrix for each expert, all of one shape.

    Raises CheckpointError if the quantization has no products of experts for a GPU.
    """
    if isinstance(quantization, HoldsExperts):
        return quantization.create_experts(specs)
    return separate_experts(quantization, specs)


def separate_experts(quantization: Quantization, specs: Sequence[MatrixSpec]) -> ExpertWeights:
    """Weights of experts that are computed one after another. Raises CheckpointError on a GPU."""
    if specs[0].device.type == "cuda":
        raise CheckpointError(
            "'quantization_config': experts in this format run only on a CPU; on a GPU, use a "
            "checkpoint in bfloat16, in fp8, or in int4 whose columns are in order"
        )
    return ExpertWeights(tuple(quantization.create_weights(spec) for spec in specs))
