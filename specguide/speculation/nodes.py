"""Owns what a target forward verifies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from specguide.kernels import BitmaskRows
from specguide.speculation.forward_input import ForwardInput


@dataclass(frozen=True, eq=False)
class Nodes:
    """What one target forward verifies: N nodes of each of B requests.

    inputs: the tokens of the forward
    rows:   what may follow each, [B · N]; None: anything
    depths: int64 [N] or [B, N], drafts on the path to each
    paths:  makes these drafts, int32 [B, N, D], -1 behind the last
    """

    inputs: ForwardInput
    rows: BitmaskRows | None
    depths: Tensor
    paths: Callable[[], Tensor]
