"""Owns Collectives, the communication between ranks, and its implementations over gloo and NCCL.

Another way to sum, for example over symmetric memory, is another subclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions

from specguide.kernels import Peers
from specguide.parallel.failure import CollectiveFailed
from specguide.parallel.places import NoPlaces, Places


class Pending(Protocol):
    """A message under way. Its tensor must not change until `wait` has returned."""

    def wait(self) -> None:
        """Wait until the message has left. Raises CollectiveFailed."""


class Collectives(Protocol):
    """The calls that ranks make together. All ranks make the same calls in the same order, with
    tensors of the same shape and dtype.

    Each call raises CollectiveFailed where another rank does not take part. Results are bitwise the
    same on all ranks.
    """

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of all ranks' contiguous tensors; it may overwrite `tensor`."""

    def peers(self, num_rows: int, dim: int, dtype: torch.dtype) -> Peers | None:
        """The shared memory with which kernels sum rows [num_rows, dim] over ranks; None: call
        `sum`.

        While a CUDA graph is captured, only ask for sizes that were asked for before.
        """

    def host_memory(self, num_bytes: int) -> tuple[Tensor, Tensor] | None:
        """Host memory that all ranks and their devices share, uint8 [num_bytes], all zero; and a
        flag in host memory as this device reads it, int32 [1], not 0 after `abort`. None: the ranks
        share no host memory."""

    def gather(self, tensor: Tensor) -> Tensor:
        """Each rank's tensor [...], stacked in the order of ranks: [ranks, ...]."""

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        """Write rank `root`'s contiguous tensor to those of the other ranks."""

    def send(self, tensor: Tensor, rank: int) -> Pending:
        """Send a contiguous tensor to one other rank."""

    def receive(self, tensor: Tensor, rank: int) -> None:
        """Fill `tensor` with what one other rank sends, of the same shape and dtype."""

    def abort(self) -> None:
        """End all kernels that wait on this device, since a rank is gone. No call may follow."""


class NoCollectives(NoPlaces):
    """The collectives of a single rank: there is nothing to do."""

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor[None]

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        pass

    def send(self, tensor: Tensor, rank: int) -> Pending:
        raise AssertionError("there is no other rank")

    def receive(self, tensor: Tensor, rank: int) -> None:
        raise AssertionError("there is no other rank")


@dataclass(frozen=True, eq=False)
class _Sent:
    """A message under way in a group. It keeps its tensor alive."""

    group: GroupCollectives
    work: Any
    tensor: Tensor

    def wait(self) -> None:
        self.group._wait(self.work)


class GroupCollectives:
    """Collectives over a torch process group.

    With NCCL, each call is launched on the current stream and can be captured in a CUDA graph. With
    gloo, the calling thread waits until the call is done.
    """

    def __init__(self, group: Any, places: Places | None = None) -> None:
        """places: memory that the ranks share; None: they share none"""
        self._group = group
        self._places = places or NoPlaces()

    def sum(self, tensor: Tensor) -> Tensor:
        options = dist.AllreduceOptions()
        options.asyncOp = False
        self._wait(self._group.allreduce([tensor], options))
        return tensor

    def peers(self, num_rows: int, dim: int, dtype: torch.dtype) -> Peers | None:
        return self._places.peers(num_rows, dim, dtype)

    def host_memory(self, num_bytes: int) -> tuple[Tensor, Tensor] | None:
        return self._places.host_memory(num_bytes)

    def gather(self, tensor: Tensor) -> Tensor:
        size = self._group.size()
        options = AllgatherOptions()
        options.asyncOp = False
        flat = torch.empty(size * tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        self._wait(self._group._allgather_base(flat, tensor.contiguous().flatten(), options))
        return flat.view(size, *tensor.shape)

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        options = dist.BroadcastOptions()
        options.rootRank = root
        options.asyncOp = False
        self._wait(self._group.broadcast([tensor], options))

    def send(self, tensor: Tensor, rank: int) -> Pending:
        return _Sent(self, self._group.send([tensor], rank, 0), tensor)

    def receive(self, tensor: Tensor, rank: int) -> None:
        self._wait(self._group.recv([tensor], rank, 0))

    def abort(self) -> None:
        self._places.abort()
        self._group.abort()

    def _wait(self, work: Any) -> None:
        if work is not None:  # else the call is on the current stream
            work.wait()


class GlooCollectives(GroupCollectives):
    """Collectives between CPUs. They fail at once where another rank has ended, and after the
    timeout where one is late."""

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum in the order of ranks, so that it is bitwise the same on all of them."""
        return self.gather(tensor).sum(0)

    def abort(self) -> None:
        """See Collectives.abort. Once it has returned, no call is under way here."""
        self._places.abort()

    def _wait(self, work: Any) -> None:
        try:
            work.wait()
        except RuntimeError as cause:
            raise CollectiveFailed(f"another rank did not take part in time: {cause}") from cause
