"""Owns Destination: where a checkpoint's tensor is stored in the model, and how it is converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specguide.errors import CheckpointError


@dataclass(frozen=True, eq=False)
class Destination:
    """Where a checkpoint's tensor is stored.

    tensor:  a view of the model's memory; the checkpoint's values are converted to its dtype and
             broadcast to its shape
    shape:   the shape that the checkpoint's tensor must have
    convert: applied to the checkpoint's tensor before it is stored; None: it is stored unchanged
    other_shapes: shapes that are accepted, too
    stored_dtype: a dtype of the kind that the checkpoint's numbers must be (integers or floats);
                  None: the dtype of `tensor`
    is_optional: the checkpoint may lack it
    check:   applied to `tensor` when all of the checkpoint's tensors have been read; raises
             CheckpointError
    """

    tensor: Tensor
    shape: tuple[int, ...]
    convert: Callable[[Tensor], Tensor] | None = None
    other_shapes: tuple[tuple[int, ...], ...] = ()
    stored_dtype: torch.dtype | None = None
    is_optional: bool = False
    check: Callable[[Tensor], None] | None = None

    @classmethod
    def of(cls, tensor: Tensor) -> Destination:
        """The destination of a tensor that is stored unchanged."""
        return cls(tensor, tuple(tensor.shape))

    def memory(self, shape: tuple[int, ...], dtype: torch.dtype | None) -> Tensor:
        """Contiguous memory into which the checkpoint's tensor of this shape and dtype is read
        before `fill`: the model's own memory if the tensor is stored unchanged."""
        tensor = self.tensor
        stays = self.convert is None and tensor.is_contiguous()
        if stays and (tensor.shape, tensor.dtype) == (shape, dtype):
            return tensor
        return torch.empty(shape, dtype=dtype, device=tensor.device)

    def fill(self, stored: Tensor) -> None:
        """Write the checkpoint's tensor, which must have an accepted shape, to the model's
        memory."""
        if stored is not self.tensor:
            self.tensor.copy_(stored if self.convert is None else self.convert(stored))


def finite(stored: Tensor) -> Tensor:
    """A checkpoint's scales, the same numbers. Raises CheckpointError if one is not finite, because
    every product with it would not be finite either."""
    stored = stored.float() if stored.dtype == torch.float8_e8m0fnu else stored
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


def merged(*parts: HasDestinations | None) -> dict[str, Destination]:
    """The destinations of all parts; None stands for a part that is not there."""
    there = (part for part in parts if part is not None)
    return {name: it for part in there for name, it in part.destinations().items()}
