"""Owns float8 weights with a scale for each output feature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor

from specguide import kernels
from specguide.errors import CheckpointError
from specguide.kernels.experts import ExpertMatrices
from specguide.kernels.float8 import (
    FLOAT8,
    Float8Rows,
    Float8Scaling,
    has_float8,
    rounded,
    scale_of,
)
from specguide.layers.destination import Destination, finite
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization.float8_experts import Float8Experts
from specguide.layers.quantization.float8_input import EACH_ROW, Float8Input
from specguide.layers.quantization.method import (
    Activation,
    InputFormat,
    MatrixSpec,
    ProjectionInput,
    ProjectionWeights,
)

_UNREACHED = (
    ": inputs are divided by it; quantize the model again, with calibration samples that reach "
    "this projection"
)


class Stored(Enum):
    """What a checkpoint stores of a weight: float8 with one scale, float8 with a scale for each
    row, or unquantized numbers, which are rounded while they are read."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    UNROUNDED = "unrounded"


class Float8Products(ProjectionWeights):
    """The products of a float8 matrix, for any granularity of its scales.

    weight: float8 [out_features, in_features]
    scale:  float32
    bias:   [out_features] or None
    dtype:  the dtype of products
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    dtype: torch.dtype

    @property
    @abstractmethod
    def input_format(self) -> Float8Input:
        """The format that rounds inputs."""

    def product(self, x: Tensor | Float8Rows) -> Tensor:
        rows = self.input_format.of(x)
        return kernels.linear_float8(rows, self.weight, self.scale, self.bias, self.dtype)

    def product_parts(self, x: Tensor | Float8Rows) -> PartialSums:
        rows = self.input_format.of(x)
        return PartialSums(
            *kernels.linear_float8_parts(rows, self.weight, self.scale, self.bias, self.dtype)
        )

    def product_gated(
        self, x: Tensor | Float8Rows, activation: Activation, wanted: InputFormat | None
    ) -> ProjectionInput:
        if activation != "silu" or not isinstance(wanted, Float8Input):
            return super().product_gated(x, activation, wanted)
        rows = self.input_format.of(x)
        return kernels.gated_linear_float8(
            rows, self.weight, self.scale, self.bias, wanted.scaling, self.dtype
        )


@dataclass(frozen=True, eq=False)
class Float8Weights(Float8Products):
    """Float8 weights with a scale for each output feature; maps that share a matrix keep their own
    scales.

    Across ranks: if cut by output features, weight, scale and bias are cut alike, and each rank
    rounds the whole input. If cut by input features, all ranks have all scales, and each rank
    rounds its own features, with its own scales if these are dynamic.

    weight: float8 [out_features, in_features]
    scale:  float32 [out_features]
    bias:   [out_features] or None
    input:  how inputs are rounded
    dtype:  the dtype of products
    stored: what the checkpoint stores
    shares_input: the static scale of its inputs is also that of other experts
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    input: Float8Input
    dtype: torch.dtype
    stored: Stored
    has_whole_rows: bool = True
    shares_input: bool = False

    @property
    def input_format(self) -> Float8Input:
        return self.input

    def destinations(self) -> dict[str, Destination]:
        """Where the checkpoint's tensors go. Raises CheckpointError for a part of the columns,
        which would need scales of its own."""
        if not self.has_whole_rows:
            raise CheckpointError(
                "expert projections that are summed in one matrix are not supported in fp8: use a "
                "checkpoint that lists them as not quantized"
            )
        destinations = self._weight_destinations()
        if self.bias is not None:
            destinations["bias"] = Destination.of(self.bias)
        static_scale = self.input.scaling.static_scale
        if static_scale is not None:
            destinations["input_scale"] = _largest_of_all(
                static_scale, may_be_zero=self.shares_input
            )
        return destinations

    def rows(self, start: int, stop: int) -> Float8Weights:
        bias = None if self.bias is None else self.bias[start:stop]
        return replace(
            self, weight=self.weight[start:stop], scale=self.scale[start:stop], bias=bias
        )

    def columns(self, start: int, stop: int) -> Float8Weights:
        return replace(
            self,
            weight=self.weight[:, start:stop],
            bias=None,
            has_whole_rows=stop - start == self.weight.shape[1],
        )

    def _weight_destinations(self) -> dict[str, Destination]:
        shape = tuple(self.weight.shape)
        if self.stored is Stored.UNROUNDED:
            return {
                "weight": Destination(self.weight, shape, self._round, stored_dtype=torch.bfloat16)
            }
        weight = Destination.of(self.weight)
        num_rows = len(self.scale)
        scale = (
            Destination(self.scale, (1,), finite, other_shapes=((),))
            if self.stored is Stored.TENSOR
            else Destination(self.scale, (num_rows, 1), _of_rows, other_shapes=((num_rows,),))
        )
        return {"weight": weight, "weight_scale": scale}

    def _round(self, stored: Tensor) -> Tensor:
        """Round the checkpoint's tensor to float8, and write its scales."""
        weight = stored.to(self.weight.device).float()
        scale = scale_of(weight)
        self.scale.copy_(scale[:, 0])
        return rounded(weight, scale)


@dataclass(frozen=True)
class Float8:
    """Weights in float8, with a scale for each tensor or row.

    has_static_inputs: the checkpoint states the scale of inputs; otherwise each token has its own
    """

    stored: Stored
    has_static_inputs: bool = False

    def create_weights(self, spec: MatrixSpec) -> Float8Weights:
        """Uninitialised weights. Raises CheckpointError for a device without float8."""
        weight = empty_values(spec)
        scale = torch.empty(spec.out_features, dtype=torch.float32, device=spec.device)
        return self._holding(spec, weight, scale)

    def create_experts(self, specs: Sequence[MatrixSpec]) -> Float8Experts:
        """Uninitialised weights of experts. Static scales are one for all experts of a layer: gates
        and ups have the same input, and the maps behind are treated alike."""
        spec = specs[0]
        values = empty_values(spec, len(specs))
        scales = torch.empty(values.shape[:2], dtype=torch.float32, device=spec.device)
        inputs = self._inputs(spec.device)
        experts = tuple(
            replace(self._holding(*parts), input=inputs, shares_input=True)
            for parts in zip(specs, values, scales, strict=True)
        )
        matrices = ExpertMatrices(values, scales[:, :, None], block=(1, spec.in_features))
        return Float8Experts(experts, matrices=matrices, input=inputs, dtype=spec.dtype)

    def _inputs(self, device: torch.device) -> Float8Input:
        """How inputs are rounded."""
        if not self.has_static_inputs:
            return EACH_ROW
        return Float8Input(Float8Scaling(torch.zeros(1, device=device)))

    def _holding(self, spec: MatrixSpec, weight: Tensor, scale: Tensor) -> Float8Weights:
        inputs = self._inputs(spec.device)
        return Float8Weights(weight, scale, spec.empty_bias(), inputs, spec.dtype, self.stored)


def empty_values(spec: MatrixSpec, *stack: int) -> Tensor:
    """Uninitialised numbers of a matrix, or of a stack of such. Raises CheckpointError for a GPU
    that cannot multiply float8."""
    if not has_float8(spec.device):
        raise CheckpointError(
            "fp8 weights need a GPU of compute capability 8.9 (Ada, Hopper) or later: use the "
            "model in bfloat16"
        )
    shape = (*stack, spec.out_features, spec.in_features)
    return torch.empty(shape, dtype=FLOAT8, device=spec.device)


def _of_rows(stored: Tensor) -> Tensor:
    return finite(stored).flatten()


def _largest_of_all(static_scale: Tensor, *, may_be_zero: bool) -> Destination:
    """Where a static scale of inputs goes. The maps of a matrix share one input, so it is rounded
    by the largest of their scales.

    may_be_zero: one of them may be 0, of an expert that no sample reached, if not all are
    """

    def largest(stored: Tensor) -> Tensor:
        scale = float(finite(stored))
        if scale < 0 or (scale == 0 and not may_be_zero):
            raise CheckpointError(f"must be more than 0, found {scale}{_UNREACHED}")
        return torch.maximum(static_scale, stored.to(static_scale))

    def check(filled: Tensor) -> None:
        if float(filled) == 0:
            raise CheckpointError(f"is 0, and so are those of all experts of the layer{_UNREACHED}")

    return Destination(
        static_scale, (1,), largest, other_shapes=((),), check=check if may_be_zero else None
    )
