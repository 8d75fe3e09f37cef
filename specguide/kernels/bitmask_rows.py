"""Owns BitmaskRows: what may be chosen, as the kernels over logits read it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class BitmaskRows(NamedTuple):
    """Which row of a bitmask says what may be chosen, for each of n rows of logits.

    bitmask: int32 [R, ≥ ceil(V / 32)], bit i % 32 of word i // 32 is 1 where token i is allowed;
             bits past V are void
    guided:  integers or bool [R], of one byte on a GPU; where it is 0 the row is free and its words
             do not count
    ids:     int64 [n], the row of the bitmask
    """

    bitmask: Tensor
    guided: Tensor
    ids: Tensor
