"""Owns Collectives, what ranks do together, and its implementations over gloo and NCCL.

Another way to sum, as one over symmetric memory, is another subclass.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from specguide.errors import EngineError


class CollectiveFailed(EngineError):
    """Another rank did not take part: it has ended, or was too late."""


class Collectives(Protocol):
    """All ranks call the same ones in the same order, with tensors of the same shape and dtype.

    Each raises CollectiveFailed where another rank does not come. Results are bitwise the same on
    all ranks.
    """

    def sum(self, tensor: Tensor) -> Tensor:
        """Of all ranks' contiguous tensors; may be written over the one given."""

    def gather(self, tensor: Tensor) -> Tensor:
        """[...] of each rank → [ranks, ...], in the order of ranks."""

    def broadcast(self, tensor: Tensor) -> None:
        """Write rank 0's contiguous tensor to that of the others."""


class NoCollectives:
    """Of one rank alone: nothing is to be done."""

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor[None]

    def broadcast(self, tensor: Tensor) -> None:
        pass


class GroupCollectives:
    """Over a process group of torch's.

    With NCCL each is launched on the current stream and can be captured in a CUDA graph. With gloo
    the calling thread waits until it is done.
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def sum(self, tensor: Tensor) -> Tensor:
        self._wait(self._group.allreduce([tensor]))
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        size = self._group.size()
        flat = torch.empty(size * tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        self._wait(self._group._allgather_base(flat, tensor.contiguous().flatten()))
        return flat.view(size, *tensor.shape)

    def broadcast(self, tensor: Tensor) -> None:
        self._wait(self._group.broadcast([tensor], dist.BroadcastOptions()))

    def _wait(self, work: Any) -> None:
        work.wait()


class GlooCollectives(GroupCollectives):
    """On CPUs. A peer that has ended fails at once, and one that is late after the timeout."""

    def sum(self, tensor: Tensor) -> Tensor:
        """In the order of ranks, so that it is bitwise the same on all of them."""
        return self.gather(tensor).sum(0)

    def _wait(self, work: Any) -> None:
        try:
            work.wait()
        except RuntimeError as cause:
            raise CollectiveFailed(f"another rank did not come: {cause}") from cause
