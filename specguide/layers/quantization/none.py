"""Owns PlainWeights, unquantized weights, and Unquantized, the quantization that uses them
everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide import kernels
from specguide.kernels.experts import ExpertMatrices
from specguide.layers.destination import Destination
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization.experts import ExpertWeights
from specguide.layers.quantization.method import (
    Activation,
    InputFormat,
    MatrixSpec,
    ProjectionInput,
    ProjectionWeights,
)


@dataclass(frozen=True, eq=False)
class PlainWeights(ProjectionWeights):
    """Unquantized weights: weight [out_features, in_features], bias [out_features] or None."""

    weight: Tensor
    bias: Tensor | None = None

    def destinations(self) -> dict[str, Destination]:
        destinations = {"weight": Destination.of(self.weight)}
        if self.bias is not None:
            destinations["bias"] = Destination.of(self.bias)
        return destinations

    def rows(self, start: int, stop: int) -> PlainWeights:
        bias = None if self.bias is None else self.bias[start:stop]
        return PlainWeights(self.weight[start:stop], bias)

    def columns(self, start: int, stop: int) -> PlainWeights:
        return PlainWeights(self.weight[:, start:stop])

    def product(self, x: Tensor) -> Tensor:
        return kernels.linear(x, self.weight, self.bias)

    def product_parts(self, x: Tensor) -> PartialSums:
        return PartialSums(kernels.linear_parts(x, self.weight, self.bias))

    def product_gated(
        self, x: Tensor, activation: Activation, wanted: InputFormat | None
    ) -> ProjectionInput:
        if activation == "silu" and wanted is None:
            return kernels.gated_linear(x, self.weight, self.bias)
        return super().product_gated(x, activation, wanted)


@dataclass(frozen=True)
class Unquantized:
    """Weights in the dtype of the model."""

    def create_weights(self, spec: MatrixSpec) -> PlainWeights:
        return PlainWeights(empty_matrix(spec), spec.empty_bias())

    def create_experts(self, specs: Sequence[MatrixSpec]) -> ExpertWeights:
        spec = specs[0]
        num = len(specs)
        values = empty_matrix(spec, num)
        bias = spec.empty_bias(num)
        experts = tuple(map(PlainWeights, values, [None] * num if bias is None else bias))
        return ExpertWeights(experts, ExpertMatrices(values, None, bias))


UNQUANTIZED = Unquantized()


def empty_matrix(spec: MatrixSpec, *num: int) -> Tensor:
    """An uninitialised matrix [*num, out_features, in_features].

    For float32 on a CPU the memory order is input-major: products of a few tokens, as in decoding,
    then take a third less time.
    """
    shape = (spec.out_features, spec.in_features)
    if spec.device.type == "cpu" and spec.dtype == torch.float32:
        return torch.empty(*num, *shape[::-1], device=spec.device, dtype=spec.dtype).mT
    return torch.empty(*num, *shape, device=spec.device, dtype=spec.dtype)
