"""Owns Destination: where a tensor of a checkpoint goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specguide.errors import CheckpointError


@dataclass(frozen=True, eq=False)
class Destination:
    """Where a checkpoint's tensor goes.

    tensor:  a view of the model's memory; the checkpoint's values are converted to its dtype and
             broadcast to it
    shape:   the shape that the checkpoint's tensor must have
    convert: applied to the checkpoint's tensor before it is stored; None: nothing is
    other_shapes: shapes that it may have instead
    stored_dtype: the dtype that its kind of numbers must be that of; None: the dtype of `tensor`
    is_optional: the checkpoint may lack it
    """

    tensor: Tensor
    shape: tuple[int, ...]
    convert: Callable[[Tensor], Tensor] | None = None
    other_shapes: tuple[tuple[int, ...], ...] = ()
    stored_dtype: torch.dtype | None = None
    is_optional: bool = False

    @classmethod
    def of(cls, tensor: Tensor) -> Destination:
        """The destination of a tensor that is stored as it is."""
        return cls(tensor, tuple(tensor.shape))

    def memory(self, shape: tuple[int, ...], dtype: torch.dtype | None) -> Tensor:
        """Contiguous memory into which the checkpoint's tensor of this shape and dtype is to be
        read for `fill`: the model's own memory where the tensor stays as it is."""
        tensor = self.tensor
        stays = self.convert is None and tensor.is_contiguous()
        if stays and (tensor.shape, tensor.dtype) == (shape, dtype):
            return tensor
        return torch.empty(shape, dtype=dtype, device=tensor.device)

    def fill(self, stored: Tensor) -> None:
        """Write the checkpoint's tensor, of a shape that it may have, to the model's memory."""
        if stored is not self.tensor:
            self.tensor.copy_(stored if self.convert is None else self.convert(stored))


def finite(stored: Tensor) -> Tensor:
    """A checkpoint's scales as they are. Raises CheckpointError where one is not finite: nothing
    that is multiplied by it would be either."""
    if not bool(stored.isfinite().all()):
        raise CheckpointError(
            "must hold finite numbers, found inf or nan: the checkpoint is damaged, quantize or "
            "download it again"
        )
    return stored


class HasDestinations(Protocol):
    """A part of a model that a checkpoint fills."""

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""


def merged(*parts: HasDestinations) -> dict[str, Destination]:
    """The destinations of all parts."""
    return {name: it for part in parts for name, it in part.destinations().items()}
