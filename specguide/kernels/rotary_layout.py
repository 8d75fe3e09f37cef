"""Owns RotaryLayout: which dimensions of a head rotate together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RotaryLayout:
    """How the checkpoint orders the dimensions of a query's or key's head.

    num_rotated:    number of dimensions that rotate, from the first on; None: all
    is_interleaved: dimension 2i rotates with 2i + 1; otherwise i with i + num_rotated / 2

    While queries and keys are rotated they are brought into one order, the same for all layouts:
    dimension i beside i + head_dim / 2. Their dot products are the same in any order.
    """

    num_rotated: int | None = None
    is_interleaved: bool = False

    def turned_half(self, head_dim: int) -> int:
        """Number n of the pairs (i, i + n), which fill the first 2 · n dimensions; the others
        follow."""
        half = head_dim // 2
        return half if self.num_rotated is None or self.is_interleaved else self.num_rotated // 2

    def in_order(self, heads: Tensor) -> Tensor:
        """The heads [..., head_dim] with their dimensions in the common order."""
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
"""The layout of Llama: dimension i rotates with i + head_dim / 2."""
