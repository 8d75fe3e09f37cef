"""Owns ColumnOrder: the order in which the columns of a matrix lie, where the groups of columns
that share a scale are not neighbours in the checkpoint."""

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
    """The order of one matrix's columns. GPTQ rounds the columns that matter most first, and groups
    them as it rounds them (`desc_act`). Here the columns of a group lie side by side, and the
    inputs are brought into the same order before each product; so all maps of one matrix must have
    one order.

    A checkpoint's tensors come in any order, and from several threads: numbers that came before the
    order was known are put into it when it is.

    columns: int64 [in_features], the inputs in their order; -1 while the order is not known
    matrix:  the matrix in which all maps lie
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

        Raises CheckpointError where groups are not of the stated size, or another map of the matrix
        has them otherwise.
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
                    "orders columns otherwise than another map that is read into the same matrix: "
                    "that is not supported"
                )
        return self.columns

    def write(self, rows: Int4Matrix, numbers: Tensor) -> Tensor:
        """Write numbers [rows, in_features], as the checkpoint has them, into some rows of the
        matrix. Returns the words."""
        with self._lock:
            ordered = numbers[:, self.columns] if self._is_known() else numbers
            return rows.words.copy_(pack_words(ordered, rows.group_size))

    def _is_known(self) -> bool:
        return bool(self.columns[0] != _UNKNOWN)
