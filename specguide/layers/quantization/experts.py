"""Owns ExpertWeights, the seam between a layer's experts and the numbers they multiply by, and what
makes it of a quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from specguide import kernels
from specguide.errors import CheckpointError
from specguide.kernels.experts import AnyExperts, GateLimits, Routing, gate, weighted
from specguide.layers.destination import Destination
from specguide.layers.quantization.method import MatrixSpec, ProjectionWeights, Quantization


@dataclass(frozen=True, eq=False)
class ExpertWeights:
    """A matrix of each expert of a layer, in the form in which one quantization holds them.

    Across ranks: each rank has all experts, which are cut like projections, gates and ups by output
                  features, what follows them by input features.

    experts:  each expert's weights, a view of `matrices`; none where a checkpoint has no tensors
              for each expert
    matrices: those of all experts, as fused kernels read them; None on a CPU, where one expert is
              computed after the other
    """

    experts: tuple[ProjectionWeights, ...]
    matrices: AnyExperts | None = None

    def part(self, expert: int, start: int, stop: int) -> dict[str, Destination]:
        """Where a map's tensors go, by the last part of their names. The map is the output features
        `start` … `stop` - 1 of one expert."""
        if not self.experts:
            raise CheckpointError(
                "'quantization_config': this architecture's experts are not supported in this form"
            )
        return self.experts[expert].rows(start, stop).destinations()

    def gated(self, x: Tensor, routing: Routing, limits: GateLimits | None) -> Tensor:
        """The gated product: x [T, in_features] → activation(gate) · up [T · k, out_features / 2],
        where k experts are chosen for each token. The first half of the output features is the
        gate."""
        if self.matrices is not None:
            return kernels.gated_experts(x, self.matrices, routing, limits)
        return gate(routing.products(x, self._product), limits)

    def weighted(self, inner: Tensor, routing: Routing) -> Tensor:
        """The weighted products: inner [T · k, in_features] → [k, T, out_features], whose sum over
        k is the output of a token's experts together."""
        if self.matrices is not None:
            return kernels.expert_parts(inner, self.matrices, routing)
        return weighted(routing.products(inner, self._product), routing)

    def _product(self, x: Tensor, expert: int) -> Tensor:
        return self.experts[expert].product(x)


@runtime_checkable
class HoldsExperts(Protocol):
    """A quantization that holds the matrices of all experts together."""

    def create_experts(self, specs: Sequence[MatrixSpec]) -> ExpertWeights:
        """Uninitialised memory for a matrix of each expert, all of one shape."""


def create_experts(quantization: Quantization, specs: Sequence[MatrixSpec]) -> ExpertWeights:
    """Uninitialised weights of a matrix of each expert, all of one shape.

    Raises CheckpointError where the quantization has no products of experts for a GPU.
    """
    if isinstance(quantization, HoldsExperts):
        return quantization.create_experts(specs)
    return separate_experts(quantization, specs)


def separate_experts(quantization: Quantization, specs: Sequence[MatrixSpec]) -> ExpertWeights:
    """Weights of experts that are computed one after the other. Raises CheckpointError on a GPU."""
    if specs[0].device.type == "cuda":
        raise CheckpointError(
            "'quantization_config': experts in this form are supported on a CPU alone; take a "
            "checkpoint of the model in bfloat16, fp8, or int4 whose columns are in order"
        )
    return ExpertWeights(tuple(quantization.create_weights(spec) for spec in specs))
