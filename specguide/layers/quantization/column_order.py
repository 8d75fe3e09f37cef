"""Owns ColumnOrder: the order of a matrix's columns if the columns that share a scale are not
neighbours in the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.kernels.int4 import Int4Matrix, pack_words, unpack_words

_UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class ColumnOrder:
    """The order of one matrix's columns. GPTQ with `desc_act` rounds the most important columns
    first, and groups columns in that order. Here the columns of a group are stored side by side,
    and the inputs are permuted in the same way before each product. So all maps of a matrix must
    have the same order.

    A checkpoint's tensors come in any order and from several threads: numbers that come before the
    order is known are permuted as soon as it is.

    columns: int64 [in_features], the input features in their new order; -1 while it is unknown
    matrix:  the matrix that holds all maps
    """

    columns: Tensor
    matrix: Int4Matrix
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def unknown(cls, matrix: Int4Matrix) -> ColumnOrder:
        """The order before the checkpoint is read."""
        columns = torch.full((matrix.in_features,), _UNKNOWN, device=matrix.words.device)
        return cls(columns, matrix)

    def learn(self, groups: Tensor) -> Tensor:
        """Learn the order from the group of each column, int32 [in_features]; writes `columns`.

        Raises CheckpointError if groups do not have the stated size, or if another map of the
        matrix has a different order.
        """
        size = self.matrix.group_size
        found, columns = groups.long().sort(stable=True)
        if not torch.equal(found, torch.arange(len(groups), device=groups.device) // size):
            raise CheckpointError(f"does not put {size} columns into each group")
        with self._lock:
            if not self._is_known():
                self.columns.copy_(columns)
                numbers = unpack_words(self.matrix.words)[:, columns]
                self.matrix.words.copy_(pack_words(numbers, size))
            elif not torch.equal(self.columns, columns):
                raise CheckpointError(
                    "has another order of columns than a projection that is loaded into the same "
                    "matrix, which is not supported"
                )
        return self.columns

    def write(self, rows: Int4Matrix, numbers: Tensor) -> Tensor:
        """Write numbers [rows, in_features], in the checkpoint's order, into some rows of the
        matrix. Returns the words."""
        with self._lock:
            ordered = numbers[:, self.columns] if self._is_known() else numbers
            return rows.words.copy_(pack_words(ordered, rows.group_size))

    def _is_known(self) -> bool:
        return bool(self.columns[0] != _UNKNOWN)
