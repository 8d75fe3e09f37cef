"""Owns float8 weights with a scale for each block of 128 × 128 (DeepSeek-V3, arXiv 2412.19437,
section 3.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import shown
from specguide.kernels.experts import ExpertMatrices
from specguide.kernels.float8 import BLOCK
from specguide.layers.destination import Destination, finite
from specguide.layers.quantization.float8 import Float8Products, empty_values
from specguide.layers.quantization.float8_experts import Float8Experts
from specguide.layers.quantization.float8_input import EACH_GROUP, Float8Input
from specguide.layers.quantization.method import MatrixSpec


@dataclass(frozen=True, eq=False)
class BlockWeights(Float8Products):
    """Float8 weights with a scale for each block. Inputs are rounded in groups of 128 features,
    with scales per token and group.

    Across ranks: if cut by output or input features at multiples of 128, weight and scale are cut
    alike, and each rank rounds its features exactly as they would be rounded without ranks.

    weight:     float8 [out_features, in_features]
    scale:      float32 [⌈out_features / 128⌉, in_features / 128]
    bias:       [out_features] or None
    dtype:      the dtype of products
    scale_name: name of the scales in the checkpoint
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    dtype: torch.dtype
    scale_name: str

    @property
    def input_format(self) -> Float8Input:
        return EACH_GROUP

    def destinations(self) -> dict[str, Destination]:
        rows, columns = self.scale.shape
        destinations = {
            "weight": Destination.of(self.weight),
            self.scale_name: Destination(
                self.scale,
                (rows, columns),
                lambda stored: finite(stored).reshape(rows, columns),
                other_shapes=((rows, 1, columns, 1),),  # as ModelOpt writes it
            ),
        }
        if self.bias is not None:
            destinations["bias"] = Destination.of(self.bias)
        return destinations

    def rows(self, start: int, stop: int) -> BlockWeights:
        """A view of some output features, see ProjectionWeights. Raises CheckpointError if it
        begins inside a block."""
        _check_begin(start, stop)
        return replace(
            self,
            weight=self.weight[start:stop],
            scale=self.scale[start // BLOCK : -(-stop // BLOCK)],
            bias=None if self.bias is None else self.bias[start:stop],
        )

    def columns(self, start: int, stop: int) -> BlockWeights:
        """A view of some input features, see ProjectionWeights. Raises CheckpointError if it begins
        inside a block."""
        _check_begin(start, stop)
        return replace(
            self,
            weight=self.weight[:, start:stop],
            scale=self.scale[:, start // BLOCK : stop // BLOCK],
            bias=None,
        )


@dataclass(frozen=True)
class Float8Blocks:
    """Weights in float8, with a scale for each block of 128 × 128.

    scale_name: name of the scales in the checkpoint
    """

    scale_name: str

    def create_weights(self, spec: MatrixSpec) -> BlockWeights:
        """Uninitialised weights. Raises CheckpointError if a row is not a whole number of blocks,
        and for a device without float8."""
        weight = empty_values(spec)
        scale = torch.empty(*_num_blocks(spec), device=spec.device)
        return self._holding(spec, weight, scale)

    def create_experts(self, specs: Sequence[MatrixSpec]) -> Float8Experts:
        """The same for all experts of a layer."""
        spec = specs[0]
        values = empty_values(spec, len(specs))
        scales = torch.empty(len(specs), *_num_blocks(spec), device=spec.device)
        experts = tuple(map(self._holding, specs, values, scales))
        matrices = ExpertMatrices(values, scales, block=(BLOCK, BLOCK))
        return Float8Experts(experts, matrices=matrices, input=EACH_GROUP, dtype=spec.dtype)

    def _holding(self, spec: MatrixSpec, weight: Tensor, scale: Tensor) -> BlockWeights:
        if spec.in_features % BLOCK:
            raise CheckpointError(
                f"{shown(spec.names[0])} has {spec.in_features} input features, and fp8 in blocks "
                f"needs a multiple of {BLOCK}"
            )
        return BlockWeights(weight, scale, spec.empty_bias(), spec.dtype, self.scale_name)


def _num_blocks(spec: MatrixSpec) -> tuple[int, int]:
    """Number of blocks along the rows and along the columns."""
    return -(-spec.out_features // BLOCK), -(-spec.in_features // BLOCK)


def _check_begin(start: int, stop: int) -> None:
    if start % BLOCK:
        raise CheckpointError(
            f"features {start} to {stop} of a matrix are a projection of their own, and fp8 in "
            f"blocks needs each projection to begin at a multiple of {BLOCK}"
        )
