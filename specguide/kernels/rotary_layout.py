"""Owns RotaryLayout: which dimensions of a head turn together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RotaryLayout:
    """How the checkpoint orders the dimensions of a query's or key's head.

    num_rotated:    the first dimensions of a head, which turn; None: all
    is_interleaved: dimension 2i turns with 2i + 1; else i with i + num_rotated / 2

    Queries and keys are brought into one order as they are rotated, the same for all layouts:
    dimension i beside i + head_dim / 2. Their dot products do not notice.
    """

    num_rotated: int | None = None
    is_interleaved: bool = False

    def turned_half(self, head_dim: int) -> int:
        """Number of pairs that lie in the halves of the first dimensions; the rest lie behind
        them."""
        half = head_dim // 2
        return half if self.num_rotated is None or self.is_interleaved else self.num_rotated // 2

    def in_order(self, heads: Tensor) -> Tensor:
        """The heads [..., head_dim] with their dimensions in the one order."""
        if self.is_interleaved:
            return heads.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
        head_dim = heads.shape[-1]
        half = self.turned_half(head_dim)
        if 2 * half == head_dim:
            return heads
        rest = head_dim // 2 - half
        low, high, low_rest, high_rest = heads.split((half, half, rest, rest), dim=-1)
        return torch.cat((low, low_rest, high, high_rest), dim=-1)


HALVES = RotaryLayout()
"""The layout of a Llama: dimension i turns with i + head_dim / 2."""
