"""Owns 4-bit weights: Int4Weights, into which the tensors of every 4-bit format are repacked while
they are read, and Int4, what these formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from specguide import kernels
from specguide.errors import CheckpointError, InvalidParams
from specguide.inputs.json_fields import positive_int
from specguide.kernels.experts import Int4Experts
from specguide.kernels.int4 import WIDEST_PLANE, Int4Matrix, pack_words
from specguide.layers.destination import Destination
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization.column_order import ColumnOrder
from specguide.layers.quantization.experts import ExpertWeights, separate_experts
from specguide.layers.quantization.method import (
    Activation,
    InputFormat,
    MatrixSpec,
    ProjectionInput,
    ProjectionWeights,
)

_SMALL_GROUPS = (32, 64)
_MOST_BITS = 4


@dataclass(frozen=True, eq=False)
class Int4Weights(ProjectionWeights):
    """Weights of 4 bits. Maps that share a matrix keep their own scales, but share the order of
    columns.

    Across ranks: if cut by output features, words, scales, zeros and bias are cut alike, and each
    rank has the whole order. If cut by input features, at borders of tiles and groups, words,
    scales and zeros are cut. A matrix with an order cannot be cut by input features.

    bias:   [out_features] or None
    order:  None: the columns are in the order of the inputs
    format: what the checkpoint stores
    """

    matrix: Int4Matrix
    bias: Tensor | None
    order: ColumnOrder | None
    format: Int4

    def destinations(self) -> dict[str, Destination]:
        destinations = self.format.destinations(self)
        if self.bias is not None:
            destinations["bias"] = Destination.of(self.bias)
        return destinations

    def rows(self, start: int, stop: int) -> Int4Weights:
        bias = None if self.bias is None else self.bias[start:stop]
        return replace(self, matrix=self.matrix.rows(start, stop), bias=bias)

    def columns(self, start: int, stop: int) -> Int4Weights:
        """A view of some input features. Raises CheckpointError if it would split a tile or a
        group."""
        matrix = self.matrix
        is_whole = (start, stop) == (0, matrix.in_features)
        size = max(matrix.tile_size, matrix.group_size)
        if not is_whole and (start % size or stop % size or self.order is not None):
            order = "" if self.order is None else " in the order of the inputs"
            raise CheckpointError(
                "expert projections that are summed in one 4-bit matrix must have a multiple of "
                f"{size} input features{order}, found {stop - start}: use a checkpoint that lists "
                "them as not quantized"
            )
        return replace(self, matrix=matrix.columns(start, stop), bias=None)

    def product(self, x: Tensor) -> Tensor:
        return kernels.int4_linear(self._ordered(x), self.matrix, self.bias)

    def product_parts(self, x: Tensor) -> PartialSums:
        return PartialSums(kernels.int4_linear_parts(self._ordered(x), self.matrix, self.bias))

    def product_gated(
        self, x: Tensor, activation: Activation, wanted: InputFormat | None
    ) -> ProjectionInput:
        if activation == "silu" and wanted is None:
            return kernels.int4_gated_linear(self._ordered(x), self.matrix, self.bias)
        return super().product_gated(x, activation, wanted)

    def _ordered(self, x: Tensor) -> Tensor:
        return x if self.order is None else x.index_select(1, self.order.columns)

    def words_of(
        self, shape: tuple[int, int], numbers_of: Callable[[Tensor], Tensor]
    ) -> Destination:
        """Where a checkpoint's packed numbers go.

        shape:      the shape of the stored int32 tensor
        numbers_of: gives the numbers, uint8 [out_features, in_features]
        """
        return packed(self.matrix.words, shape, lambda stored: self._words(numbers_of(stored)))

    def _words(self, numbers: Tensor) -> Tensor:
        if self.order is not None:
            return self.order.write(self.matrix, numbers)
        return pack_words(numbers, self.matrix.group_size)

    def order_of(self) -> Destination:
        """Where the tensor with the group of each column, int32 [in_features], goes."""
        assert self.order is not None
        return packed(self.order.columns, (self.matrix.in_features,), self.order.learn)


@dataclass(frozen=True)
class Int4(ABC):
    """What a 4-bit format says of its weights.

    group_size:  number of columns that share a scale; None: all columns of a row
    has_zeros:   each group has a zero; otherwise all zeros are 8
    has_order:   the columns of a group need not be neighbours
    scale_dtype: dtype of the scales; None: the model's. In a float32 model scales are float32
    """

    group_size: int | None
    has_zeros: bool
    has_order: bool = False
    scale_dtype: torch.dtype | None = None

    @abstractmethod
    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        """Where a map's tensors go, except its bias, by the last part of their names."""

    def create_weights(self, spec: MatrixSpec) -> Int4Weights:
        """Uninitialised weights."""
        matrix = self._matrix(spec, spec.device)
        order = ColumnOrder.unknown(matrix) if self.has_order else None
        return Int4Weights(matrix, spec.empty_bias(), order, self)

    def create_experts(self, specs: Sequence[MatrixSpec]) -> ExpertWeights:
        """Uninitialised weights of experts. On a GPU it raises CheckpointError if columns have an
        order, since each expert would have its own, and InvalidParams in float32, where products of
        many rows are wrong with Triton 3.6."""
        if self.has_order:
            return separate_experts(self, specs)
        spec = specs[0]
        num = len(specs)
        if spec.device.type == "cuda" and spec.dtype == torch.float32:
            raise InvalidParams(
                "4-bit experts do not run on a GPU in float32: set dtype to 'bfloat16' or "
                "'float16'",
                param="dtype",
            )
        bias = spec.empty_bias(num)
        like = self._matrix(spec, torch.device("meta"))
        matrices = Int4Experts.empty(num, like, spec.device, bias)
        experts = tuple(
            Int4Weights(matrices.expert(number), None if bias is None else bias[number], None, self)
            for number in range(num)
        )
        return ExpertWeights(experts, matrices)

    def _matrix(self, spec: MatrixSpec, device: torch.device) -> Int4Matrix:
        whole = -(-spec.in_features // WIDEST_PLANE) * WIDEST_PLANE
        scale_dtype = spec.dtype if spec.dtype == torch.float32 else self.scale_dtype
        return Int4Matrix.empty(
            (spec.out_features, spec.in_features),
            self.group_size or whole,
            scale_dtype or spec.dtype,
            device,
            has_zeros=self.has_zeros,
        )


def group_size_of(stated: Mapping[str, Any], name: str) -> int | None:
    """The stated number of columns in a group; None for -1, a whole row. Raises CheckpointError."""
    return None if stated.get(name) == -1 else positive_int(stated, name)


def check_int4(num_bits: int, group_size: int | None) -> None:
    """Raise CheckpointError for another number of bits, and for group sizes that no product
    supports."""
    if num_bits != _MOST_BITS:
        raise CheckpointError(
            f"integer weights of {num_bits} bits are not supported: only {_MOST_BITS} bits are"
        )
    if group_size is not None and group_size not in _SMALL_GROUPS and group_size % WIDEST_PLANE:
        raise CheckpointError(
            f"a group size of {group_size} is not supported: only "
            f"{', '.join(map(str, _SMALL_GROUPS))}, multiples of {WIDEST_PLANE}, and whole rows"
        )


def packed(
    tensor: Tensor, shape: tuple[int, ...], convert: Callable[[Tensor], Tensor]
) -> Destination:
    """The destination of a stored int32 tensor, which is converted on the device of `tensor`."""
    return Destination(
        tensor, shape, lambda stored: convert(stored.to(tensor.device)), stored_dtype=torch.int32
    )


def checked(
    weights: Int4Weights,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    check: Callable[[Tensor], bool],
    message: str,
) -> Destination:
    """The destination of a tensor that may be missing, and of which nothing is kept. It raises
    CheckpointError with `message` if `check` is false."""
    nothing = weights.matrix.words.new_empty(0)

    def convert(stored: Tensor) -> Tensor:
        if not check(stored):
            raise CheckpointError(message)
        return nothing

    return Destination(nothing, shape, convert, stored_dtype=dtype, is_optional=True)


def zero_bias(weights: Int4Weights) -> Destination:
    """The destination of a bias of zeros, which older checkpoints have for maps without bias."""
    return checked(
        weights,
        (weights.matrix.out_features,),
        weights.matrix.scales.dtype,
        lambda stored: not stored.any(),
        "is not zero, but the model has no such bias",
    )


def numbers_of_words(words: Tensor) -> Tensor:
    """The 4-bit numbers in words, the lowest bits first: int32 [..., N] → uint8 [..., 8 · N]."""
    octets = words.contiguous().view(torch.uint8)
    return torch.stack((octets & 15, octets >> 4), -1).flatten(-2)


def num_words(num_features: int, what: str) -> int:
    """Number of words of 8 numbers that hold num_features. Raises CheckpointError, which names
    `what`, if the last word would not be full."""
    if num_features % 8:
        raise CheckpointError(
            f"{num_features} {what} features cannot be packed, since they are not a multiple of 8: "
            "use a checkpoint that lists this projection as not quantized"
        )
    return num_features // 8
