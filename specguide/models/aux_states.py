"""Owns AuxStates: the aux hidden states that a draft head reads, collected during a pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class AuxStates:
    """The inputs of some layers in one pass over T tokens.

    layers: the layers whose input is wanted, numbered as in Decoder.forward
    found:  the inputs [T, hidden_size] that the pass has reached so far, by layer
    """

    layers: tuple[int, ...]
    found: dict[int, Tensor] = field(default_factory=dict)

    def beside(self, hidden: Tensor, scale: float) -> Tensor:
        """All inputs side by side, times `scale`: [T, len(layers) · hidden_size]. Call it once the
        pass has reached all of them. hidden: any state of the pass, [T, hidden_size]"""
        if not self.layers:
            return hidden[:, :0]
        states = torch.cat([self.found[layer] for layer in self.layers], dim=-1)
        return states if scale == 1.0 else states * scale
