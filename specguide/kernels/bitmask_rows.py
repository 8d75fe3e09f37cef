"""Owns BitmaskRows: which tokens may be chosen, in the form that the kernels over logits read."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class BitmaskRows(NamedTuple):
    """Names, for each of n rows of logits, the bitmask row that says what may be chosen.

    bitmask: int32 [R, ≥ ceil(V / 32)], bit i % 32 of word i // 32 is 1 where token i is allowed;
             bits past V mean nothing
    guided:  integers or bool [R], of one byte on a GPU; where it is 0 the row is free and its words
             are not read
    ids:     int64 [n], the row of the bitmask for each row of logits
    """

    bitmask: Tensor
    guided: Tensor
    ids: Tensor
