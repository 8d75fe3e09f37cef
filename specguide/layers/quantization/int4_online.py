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

_LARGEST, _MIDDLE = 15, 8


@dataclass(frozen=True)
class RoundedInt4(Int4):
    """Each number to the nearest of 16 that are evenly spaced, 0 among them: with zeros, from its
    group's smallest to its largest; without, as far below 0 as above, but for one step."""

    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        matrix = weights.matrix

        def convert(stored: Tensor) -> Tensor:
            """Writes the scales and zeros too."""
            groups = _groups(stored.to(matrix.words.device), matrix.group_size)
            scales, zeros = _steps(groups) if self.has_zeros else _symmetric_steps(groups)
            matrix.scales.copy_(scales.t())
            if matrix.zeros is not None:
                matrix.zeros.copy_(zeros.t())
            numbers = (groups / scales[:, :, None]).round() + zeros[:, :, None]
            numbers = numbers.clamp(0, _LARGEST).to(torch.uint8).flatten(1)[:, : stored.shape[1]]
            return pack_words(numbers, matrix.group_size)

        shape = matrix.out_features, matrix.in_features
        return {"weight": Destination(matrix.words, shape, convert, stored_dtype=torch.bfloat16)}


ONLINE = ByName(((None, RoundedInt4(128, has_zeros=True)),), ModuleList(frozenset({"lm_head"})))
"""The output matrix stays as it is."""

SYMMETRIC = RoundedInt4(128, has_zeros=False)
"""Less exact, and its products take less time."""


def _groups(weight: Tensor, group_size: int) -> Tensor:
    """[out_features, in_features] → float32 [out_features, groups, group_size]; 0 fills it up."""
    padded = F.pad(weight.float(), (0, -weight.shape[1] % group_size))
    return padded.unflatten(1, (-1, group_size))


def _steps(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Scales and zeros, float32 [out_features, groups]."""
    smallest, largest = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scales = ((largest - smallest) / _LARGEST).clamp(min=torch.finfo(torch.float16).tiny)
    return scales, (-smallest / scales).round()


def _symmetric_steps(groups: Tensor) -> tuple[Tensor, Tensor]:
    """The same, where all zeros are 8."""
    below, above = -groups.amin(-1) / _MIDDLE, groups.amax(-1) / (_LARGEST - _MIDDLE)
    scales = torch.maximum(below, above).clamp(min=torch.finfo(torch.float16).tiny)
    return scales, torch.full_like(scales, _MIDDLE)
