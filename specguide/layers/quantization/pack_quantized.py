"""Owns the format "pack-quantized" of compressed-tensors: integer weights and unquantized
inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from specguide.errors import CheckpointError
from specguide.layers.destination import Destination, finite
from specguide.layers.quantization.compressed_group import Group
from specguide.layers.quantization.int4 import (
    Int4,
    Int4Weights,
    check_int4,
    checked,
    num_words,
    numbers_of_words,
    packed,
)
from specguide.layers.quantization.method import Quantization
from specguide.layers.quantization.none import UNQUANTIZED

_IN_GROUPS = ("group", "dynamic")
"""Values of `actorder` with which the columns of a group need not be neighbours."""


@dataclass(frozen=True)
class PackQuantized(Int4):
    """The tensors weight_packed int32 [out_features, in_features / 8], weight_scale [out_features,
    groups], weight_zero_point int32 [out_features / 8, groups], weight_shape of 2 integers, and
    weight_g_idx int32 [in_features], the group of each column."""

    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        matrix = weights.matrix
        shape = (matrix.out_features, matrix.in_features)
        num_groups = len(matrix.scales)
        destinations = {
            "weight_packed": weights.words_of(
                (matrix.out_features, num_words(matrix.in_features, "input")), numbers_of_words
            ),
            "weight_scale": Destination(
                matrix.scales, (matrix.out_features, num_groups), lambda stored: finite(stored).t()
            ),
            "weight_shape": checked(
                weights,
                (2,),
                torch.int64,
                lambda stored: tuple(stored.tolist()) == shape,
                f"is not {list(shape)}, the shape that config.json asks for",
            ),
        }
        if matrix.zeros is not None:
            destinations["weight_zero_point"] = packed(
                matrix.zeros,
                (num_words(matrix.out_features, "output"), num_groups),
                lambda stored: numbers_of_words(stored.t()),
            )
        if weights.order is not None:
            destinations["weight_g_idx"] = weights.order_of()
        return destinations


def of_group(group: Group) -> Quantization:
    """The quantization that a group states. Raises CheckpointError for what is not implemented."""
    weights = group.weights
    if weights is None:
        return UNQUANTIZED
    if group.inputs is not None:
        raise CheckpointError("integer weights with 'input_activations' are not supported")
    if weights.kind != "int" or weights.strategy not in ("group", "channel"):
        raise CheckpointError(f"'weights' are not integers by group or by channel: {weights}")
    group_size = weights.group_size if weights.strategy == "group" else None
    check_int4(weights.num_bits, group_size)
    return PackQuantized(
        group_size,
        has_zeros=not weights.is_symmetric,
        has_order=weights.actorder in _IN_GROUPS and group_size is not None,
    )
