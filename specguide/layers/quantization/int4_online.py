"""Owns the rounding of unquantized checkpoints to 4-bit weights while they are read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.int4 import pack_words
from specguide.layers.destination import Destination
from specguide.layers.quantization.by_name import SMALL_MAPS, ByName, ModuleList
from specguide.layers.quantization.int4 import Int4, Int4Weights

_LARGEST, _MIDDLE = 15, 8


@dataclass(frozen=True)
class RoundedInt4(Int4):
    """Rounds each number to the nearest of 16 evenly spaced values, 0 among them. With zeros these
    span its group's smallest to largest number; without, they reach equally far below and above 0,
    except for one step.

    shares: shares of that span to choose from; each group takes the one with the least squared
            error. Numbers outside the chosen span are clamped to its ends, and the others are
            rounded more finely
    """

    shares: tuple[float, ...] = (1.0,)

    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        matrix = weights.matrix

        def convert(stored: Tensor) -> Tensor:
            """The rounded numbers; it writes the scales and zeros, too."""
            groups = _groups(stored.to(matrix.words.device), matrix.group_size)
            scales, zeros = self._steps(groups, matrix.scales.dtype)
            matrix.scales.copy_(scales.t())
            if matrix.zeros is not None:
                matrix.zeros.copy_(zeros.t())
            numbers = _numbers(groups, scales, zeros).to(torch.uint8).flatten(1)
            return pack_words(numbers[:, : stored.shape[1]], matrix.group_size)

        shape = matrix.out_features, matrix.in_features
        return {"weight": Destination(matrix.words, shape, convert, stored_dtype=torch.bfloat16)}

    def _steps(self, groups: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The groups' scales, rounded to `dtype`, and zeros, both float32 [out_features,
        groups]."""
        smallest, largest = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)

        def spanning(share: Tensor | float) -> tuple[Tensor, Tensor]:
            low, high = smallest * share, largest * share
            if self.has_zeros:
                scales = (high - low) / _LARGEST
            else:
                scales = torch.maximum(-low / _MIDDLE, high / (_LARGEST - _MIDDLE))
            scales = scales.clamp(min=torch.finfo(torch.float16).tiny).to(dtype).float()
            zeros = (-low / scales).round() if self.has_zeros else torch.full_like(scales, _MIDDLE)
            return scales, zeros

        errors = torch.stack([_error(groups, *spanning(share)) for share in self.shares])
        return spanning(torch.tensor(self.shares, device=groups.device)[errors.argmin(0)])


ONLINE = ByName(
    ((None, RoundedInt4(128, has_zeros=True)),),
    ModuleList(frozenset({"lm_head"}), parts=SMALL_MAPS),
)
"""Rounds everything except the output matrix and small maps."""

SYMMETRIC = RoundedInt4(128, has_zeros=False, shares=(1.0, 0.95, 0.9, 0.85, 0.8))
"""A less exact rounding, whose products are faster."""


def _groups(weight: Tensor, group_size: int) -> Tensor:
    """The weights in groups: [out_features, in_features] → float32 [out_features, groups,
    group_size]; the last group is padded with 0."""
    padded = F.pad(weight.float(), (0, -weight.shape[1] % group_size))
    return padded.unflatten(1, (-1, group_size))


def _numbers(groups: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """The numbers 0 … 15 for these groups, in their shape."""
    return ((groups / scales[:, :, None]).round() + zeros[:, :, None]).clamp(0, _LARGEST)


def _error(groups: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """The squared error, summed over each group."""
    moved = (_numbers(groups, scales, zeros) - zeros[:, :, None]) * scales[:, :, None] - groups
    return moved.square().sum(-1)
