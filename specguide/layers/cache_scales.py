"""Owns CacheScales: the scales that a checkpoint states for the float8 KV cache of one layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.kernels.kv_scales import UNSCALED, KVScales
from specguide.layers.destination import Destination
from specguide.layers.placement import Placement

_KEY, _VALUE, _BOTH = slice(0, 1), slice(1, 2), slice(0, 2)
_NAMES = {
    "k_scale": _KEY,
    "v_scale": _VALUE,
    "k_proj.k_scale": _KEY,
    "v_proj.v_scale": _VALUE,
    "k_proj.output_scale": _KEY,
    "v_proj.output_scale": _VALUE,
    "kv_scale": _BOTH,
}
"""The scales' names beside the layer's projections: in compressed-tensors, in ModelOpt, in older
checkpoints of compressed-tensors, and in AutoFP8."""


@dataclass(frozen=True, eq=False)
class CacheScales:
    """The scales of keys and values. They are read on the host, since launches take them as numbers
    and CUDA graphs record these.

    stored: float32 [2] on the CPU, the scale of keys and the scale of values; NaN if the checkpoint
            has none
    prefix: prefix of the scales' names in the checkpoint
    """

    stored: Tensor
    prefix: str

    @classmethod
    def create(cls, place: Placement) -> CacheScales:
        """Scales that are not known yet."""
        device = place.device if place.device.type == "meta" else torch.device("cpu")
        return cls(torch.full((2,), math.nan, device=device), place.prefix)

    def destinations(self) -> dict[str, Destination]:
        """Where the tensors of a checkpoint go, by their full names; a checkpoint may lack them."""
        return {
            self.prefix + name: Destination(
                self.stored[place], (1,), _checked, other_shapes=((),), is_optional=True
            )
            for name, place in _NAMES.items()
        }

    @property
    def are_known(self) -> bool:
        """Whether the checkpoint has both scales; without them both are 1. Raises CheckpointError
        if it has only one."""
        num_known = int(self.stored.isfinite().sum())
        if num_known == 1:
            missing = "kv"[int(self.stored[0].isfinite())]
            raise CheckpointError(f"{self.prefix}{missing}_scale is missing")
        return num_known == 2

    def of(self, cache: Tensor) -> KVScales:
        """The scales of keys and values in a cache of this dtype."""
        return self._float8 if cache.dtype == torch.float8_e4m3fn else UNSCALED

    @cached_property
    def _float8(self) -> KVScales:
        return KVScales(*self.stored.tolist()) if self.are_known else UNSCALED


def have_scales(layers: Sequence[CacheScales]) -> bool:
    """Whether the checkpoint has the scales of all layers. Raises CheckpointError if it has those
    of only some layers."""
    unknown = [layer.prefix for layer in layers if not layer.are_known]
    if unknown and len(unknown) < len(layers):
        raise CheckpointError(
            "some layers have scales for the KV cache (k_scale, v_scale), but they are missing for "
            f"{unknown[0]}*"
        )
    return not unknown


def _checked(stored: Tensor) -> Tensor:
    scale = float(stored)
    if not (math.isfinite(scale) and scale > 0):
        raise CheckpointError(f"must be a finite number > 0, found {scale}")
    return stored
