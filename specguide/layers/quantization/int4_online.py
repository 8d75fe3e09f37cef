"""Owns the rounding of a checkpoint that is not quantized to weights of 4 bits, as it is read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.int4 import pack_words
from specguide.layers.destination import Destination
from specguide.layers.quantization.by_name import ByName, ModuleList
from specguide.layers.quantization.int4 import Int4, Int4Weights

_LARGEST = 15


@dataclass(frozen=True)
class RoundedInt4(Int4):
    """Each number to the nearest of 16 that divide its group's range evenly, from the smallest to
    the largest, 0 among them."""

    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        matrix = weights.matrix

        def convert(stored: Tensor) -> Tensor:
            """Writes the scales and zeros too."""
            numbers, scales, zeros = rounded(stored.to(matrix.words.device), matrix.group_size)
            matrix.scales.copy_(scales)
            assert matrix.zeros is not None
            matrix.zeros.copy_(zeros)
            return pack_words(numbers, matrix.group_size)

        shape = matrix.out_features, matrix.in_features
        return {"weight": Destination(matrix.words, shape, convert, stored_dtype=torch.bfloat16)}


ONLINE = ByName(((None, RoundedInt4(128, has_zeros=True)),), ModuleList(frozenset({"lm_head"})))
"""The output matrix stays as it is."""


def rounded(weight: Tensor, group_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """[out_features, in_features] → numbers uint8 of that shape, and scales float32 and zeros uint8
    [groups, out_features]."""
    in_features = weight.shape[1]
    padded = F.pad(weight.float(), (0, -in_features % group_size))
    groups = padded.unflatten(1, (-1, group_size))
    smallest, largest = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scales = ((largest - smallest) / _LARGEST).clamp(min=torch.finfo(torch.float16).tiny)
    zeros = (-smallest / scales).round()
    numbers = (groups / scales[:, :, None]).round() + zeros[:, :, None]
    numbers = numbers.clamp(0, _LARGEST).to(torch.uint8).flatten(1)
    return numbers[:, :in_features], scales.t(), zeros.to(torch.uint8).t()
