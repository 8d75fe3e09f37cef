"""Owns ExpertWeights, the seam between a layer's experts and the numbers they multiply by, and what
makes it of a quantization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from specguide import kernels
from specguide.errors import CheckpointError
from specguide.kernels.experts import ExpertMatrices, GateLimits, Routing, gate
from specguide.layers.destination import Destination
from specguide.layers.quantization.method import MatrixSpec, ProjectionWeights, Quantization


@dataclass(frozen=True, eq=False)
class ExpertWeights:
    """A matrix of each expert of a layer, in the form in which one quantization holds them.

    Across ranks: each has all experts, cut as a projection is, gates and ups by output features,
    what follows them by input features.

    experts:  each as a projection, a view of `matrices`; none where a checkpoint has no tensors for
              each expert
    matrices: of all, as fused kernels read them; None: one expert after the other, on a CPU
    """

    experts: tuple[ProjectionWeights, ...]
    matrices: ExpertMatrices | None = None

    def part(self, expert: int, start: int, stop: int) -> dict[str, Destination]:
        """Where the tensors of a map go that is the output features `start` … `stop` - 1 of one
        expert, by the last part of their names."""
        if not self.experts:
            raise CheckpointError(
                "'quantization_config': this architecture's experts are not supported in this form"
            )
        return self.experts[expert].rows(start, stop).destinations()

    def gated(self, x: Tensor, routing: Routing, limits: GateLimits | None) -> Tensor:
        """x [T, in_features] → activation(gate) · up [T · k, out_features / 2]; the first half of
        the output features is the gate."""
        if self.matrices is not None:
            return kernels.gated_experts(x, self.matrices, routing, limits)
        products = (
            (tokens, places, gate(self.experts[expert].product(x[tokens]), limits))
            for expert, tokens, places in routing.each()
        )
        return _together(products, routing).flatten(0, 1)

    def weighted(self, inner: Tensor, routing: Routing) -> Tensor:
        """inner [T · k, in_features] → [k, T, out_features], weighted, whose sum over k is what the
        experts of a token give together."""
        if self.matrices is not None:
            return kernels.expert_parts(inner, self.matrices, routing)
        inner = inner.unflatten(0, routing.weights.shape)
        products = (
            (tokens, places, self.experts[expert].product(inner[tokens, places]))
            for expert, tokens, places in routing.each()
        )
        together = _together(products, routing) * routing.weights[:, :, None]
        return together.to(inner.dtype).transpose(0, 1)


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
    if specs[0].device.type == "cuda":
        raise CheckpointError(
            "'quantization_config': experts in this form are supported on a CPU alone; take a "
            "checkpoint of the model in bfloat16 or fp8"
        )
    return ExpertWeights(tuple(quantization.create_weights(spec) for spec in specs))


def _together(products: Iterator[tuple[Tensor, Tensor, Tensor]], routing: Routing) -> Tensor:
    """[T, k, out] of products [n, out] with their tokens and places."""
    found = list(products)
    size = found[0][2].shape[1] if found else 0
    together = torch.empty(*routing.weights.shape, size, dtype=found[0][2].dtype)
    for tokens, places, product in found:
        together[tokens, places] = product
    return together
