"""Owns Places: memory that the ranks of a host share. Each rank writes into the others' memory, so
that a kernel can sum over ranks by itself, without NCCL."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from specguide.kernels import Peers
from specguide.kernels.peers import peers_num_bytes
from specguide.kernels.shared_memory import mapped, of_another_process, pinned_for_others
from specguide.parallel.failure import CollectiveFailed

_MOST_ROWS = 1024
"""Most rows that a rank receives in one call: with more rows, NCCL's sums are as fast."""
_POLLS_EACH_S = 4_000_000
"""An upper bound of the polls that a kernel makes in a second."""
_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


class Memory(Protocol):
    """A source of memory that ranks share. All ranks make the same calls in the same order."""

    def allocate(self, num_bytes: int) -> list[Tensor]:
        """Memory of each rank, uint8 [num_bytes], as this process maps it, all zero. Raises
        RuntimeError where ranks cannot share memory, and CollectiveFailed where another rank does
        not come."""

    def allocate_on_host(self, num_bytes: int) -> Tensor:
        """Host memory that all ranks and their devices map, uint8 [num_bytes], all zero. Raises as
        `allocate` does."""


class Places(Protocol):
    """Memory into which a rank and its peers write."""

    def peers(self, num_rows: int, dim: int, dtype: torch.dtype) -> Peers | None:
        """See Collectives.peers."""

    def host_memory(self, num_bytes: int) -> tuple[Tensor, Tensor] | None:
        """See Collectives.host_memory."""

    def abort(self) -> None:
        """See Collectives.abort."""


class NoPlaces:
    """The null object: ranks share no memory."""

    def peers(self, num_rows: int, dim: int, dtype: torch.dtype) -> Peers | None:
        return None

    def host_memory(self, num_bytes: int) -> tuple[Tensor, Tensor] | None:
        return None

    def abort(self) -> None:
        pass


class MemoryPlaces:
    """Places in shared memory, which is allocated when a size is first asked for."""

    def __init__(
        self,
        memory: Memory,
        rank: int,
        size: int,
        device: torch.device,
        timeout_s: float,
        least: Callable[[int], int],
    ) -> None:
        """timeout_s: roughly the longest wait of a kernel for another rank, seconds
        least: returns the least of all ranks' values; waits for all ranks
        """
        self._memory, self._rank, self._size, self._least = memory, rank, size, least
        self._most_polls = min(2**31 - 1, round(timeout_s * _POLLS_EACH_S))
        is_gpu = device.type == "cuda"
        self._device = device
        self._aborts = torch.zeros(1, dtype=torch.int32, pin_memory=is_gpu)
        self._aborted = mapped(self._aborts, device) if is_gpu else self._aborts
        self._peers: dict[tuple[int, torch.dtype], Peers | None] = {}
        self._is_shared = True

    def peers(self, num_rows: int, dim: int, dtype: torch.dtype) -> Peers | None:
        if num_rows > self._most_rows:
            return None
        if (dim, dtype) not in self._peers:
            shape = self._most_rows, dim
            num_bytes = peers_num_bytes(self._size, shape, dtype)
            others = self._aborted, self._most_polls
            self._peers[dim, dtype] = self._allocated(
                num_bytes, lambda memory: Peers.over(self._rank, memory, shape, dtype, *others)
            )
        return self._peers[dim, dtype]

    def host_memory(self, num_bytes: int) -> tuple[Tensor, Tensor] | None:
        memory = None
        try:
            memory = self._memory.allocate_on_host(num_bytes)
        except RuntimeError as cause:
            _LOGGER.warning("ranks cannot share memory of the host: %s", cause)
        is_shared = self._all(memory is not None)
        return (memory, self._aborted) if memory is not None and is_shared else None

    def abort(self) -> None:
        self._aborts[0] = 1  # on the host: a CUDA call might wait for the kernel that is to end

    @property
    def _most_rows(self) -> int:
        return _MOST_ROWS * self._size // (2 * (self._size - 1))  # where each row has an owner

    def _allocated(self, num_bytes: int, over: Callable[[list[Tensor]], T]) -> T | None:
        """What `over` makes of num_bytes of each rank's memory. None where ranks share no memory;
        then every later call returns None, too."""
        memory = self._shared(num_bytes) if self._is_shared else []
        self._is_shared = bool(memory)
        if not memory:
            return None
        made = over(memory)
        self._all(True)
        return made

    def _shared(self, num_bytes: int) -> list[Tensor]:
        """Memory of each rank, all zero; an empty list where a rank has none, or does not see in
        its own memory what the others write there."""
        memory = list[Tensor]()
        try:
            memory = self._memory.allocate(num_bytes)
        except RuntimeError as cause:
            _LOGGER.warning("ranks cannot share GPU memory, so all-reduces are slower: %s", cause)
        for each in memory:
            each[self._rank] = self._rank + 1
        if not self._all(bool(memory)):
            return []
        own = memory[self._rank]
        is_written = own[: self._size].tolist() == list(range(1, self._size + 1))
        if not is_written:
            _LOGGER.warning(
                "ranks cannot share GPU memory, so all-reduces are slower: a GPU does not see what "
                "another GPU writes"
            )
        own.zero_()
        return memory if self._all(is_written) else []

    def _all(self, is_so: bool) -> bool:
        """Whether `is_so` is true on all ranks. Waits until their devices have finished all
        work."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return bool(self._least(int(is_so)))


class CudaMemory:
    """A `Memory` on the ranks' GPUs, which other processes map through CUDA IPC handles."""

    def __init__(self, store: Any, rank: int, size: int, device: torch.device) -> None:
        """store: a torch store that holds only these ranks' handles"""
        self._store, self._rank, self._size, self._device = store, rank, size, device
        self._num_allocated = 0

    def allocate(self, num_bytes: int) -> list[Tensor]:
        own = torch.empty(0)
        device = 0
        handles = list[Any]()
        name = str(self._num_allocated)
        self._num_allocated = self._num_allocated + 1
        try:
            own = torch.zeros(num_bytes, dtype=torch.uint8, device=self._device)
            torch.cuda.synchronize(self._device)
            device, *handles = own.untyped_storage()._share_cuda_()
        except RuntimeError:
            pass  # the empty list of handles tells the others
        self._store.set(f"{name}/{self._rank}", pickle.dumps((device, handles)))
        theirs = [self._handles(f"{name}/{rank}") for rank in range(self._size)]
        if not all(handles for _, handles in theirs):
            raise RuntimeError("CUDA gives a rank no IPC handle of its memory")
        self._check_reach(device for device, _ in theirs)
        return [
            own if rank == self._rank else self._mapped(handles, num_bytes)
            for rank, (_, handles) in enumerate(theirs)
        ]

    def allocate_on_host(self, num_bytes: int) -> Tensor:
        """Host memory that rank 0 creates and the others map."""
        name = str(self._num_allocated)
        self._num_allocated = self._num_allocated + 1
        if self._rank:
            return of_another_process(self._given(name).decode(), num_bytes)
        try:
            memory, file = pinned_for_others(num_bytes)
        except RuntimeError:
            self._store.set(name, "")  # no file name: the others fail, too
            raise
        self._store.set(name, file)
        return memory

    def _check_reach(self, devices: Iterable[int]) -> None:
        """Raise RuntimeError where this GPU cannot use the memory of another one."""
        own = self._device.index
        for device in devices:
            if device != own and not torch.cuda.can_device_access_peer(own, device):
                raise RuntimeError(f"GPU {own} has no peer access to the memory of GPU {device}")

    def _handles(self, name: str) -> tuple[int, list[Any]]:
        """The device and the memory handles that a rank has put into the store as `name`; an empty
        list of handles where it has no memory."""
        given: tuple[int, list[Any]] = pickle.loads(self._given(name))
        return given

    def _given(self, name: str) -> bytes:
        """The bytes that a rank has put into the store as `name`. Waits for them."""
        try:
            return cast(bytes, self._store.get(name))
        except dist.DistError as cause:
            raise CollectiveFailed(
                f"another rank did not share its memory in time: {cause}"
            ) from cause

    def _mapped(self, handles: list[Any], num_bytes: int) -> Tensor:
        """Memory of another GPU, mapped to an address that kernels of this GPU can use."""
        *handles, _ = handles  # the last one says whether to wait for the owner's stream
        storage_of: Any = torch.UntypedStorage._new_shared_cuda
        storage = storage_of(self._device.index, *handles, False)
        tensor = torch.empty(0, dtype=torch.uint8, device=self._device)
        return tensor.set_(storage, 0, (num_bytes,), (1,))
