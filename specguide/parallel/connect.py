"""Owns how ranks find one another and form process groups."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from specguide.host import env
from specguide.parallel.collectives import GlooCollectives, GroupCollectives
from specguide.parallel.failure import CollectiveFailed
from specguide.parallel.places import CudaMemory, MemoryPlaces
from specguide.parallel.ranks import ONE_RANK, Ranks
from specguide.parallel.stages import Stage

OWN_HOST = "127.0.0.1"
_NCCL_TIMEOUT = timedelta(minutes=30)
"""Longest wait for another rank. It is long, because some ranks arrive while others still load the
model. In iterations, the executor bounds its waits itself."""


@dataclass(frozen=True)
class Meeting:
    """The address at which the ranks meet.

    port:      port at which rank 0's store listens
    timeout_s: longest wait of a rank for another, seconds
    addresses: each rank's host, as the others reach it
    """

    port: int
    timeout_s: float
    addresses: tuple[str, ...]

    @classmethod
    def open(
        cls, size: int, timeout_s: float, addresses: Sequence[str] | None = None
    ) -> tuple[Meeting, Any]:
        """A new meeting of `size` ranks, and its store. Rank 0 opens it; it lasts as long as the
        store is held.

        addresses: left out: all ranks are on this host
        """
        addresses = tuple(addresses or [OWN_HOST] * size)
        store = dist.TCPStore(
            addresses[0], 0, size, True, timedelta(seconds=timeout_s), wait_for_workers=False
        )
        return cls(store.port, timeout_s, addresses), store

    def of_ranks(self, first: int, size: int) -> Meeting:
        """A meeting of only the ranks `first` … `first` + `size` - 1, at the same store."""
        return replace(self, addresses=self.addresses[first : first + size])

    @property
    def is_on_one_host(self) -> bool:
        """Whether all ranks are on one host."""
        return len(set(self.addresses)) == 1


def connect(
    meeting: Meeting,
    rank: int,
    device: torch.device,
    store: Any = None,
    *,
    has_whole_experts: bool = False,
) -> Ranks:
    """Join the other ranks and wait for all of them; each rank has a device of its own.

    store: on rank 0, the store that it has opened; None on other ranks
    has_whole_experts: see Ranks
    Raises CollectiveFailed where a rank does not come in time.
    """
    group = _group(_store(meeting, store), meeting, rank, device)
    return replace(group, has_whole_experts=has_whole_experts)


def connect_stages(
    meeting: Meeting,
    rank: int,
    device: torch.device,
    num_stages: int,
    num_micro_batches: int,
    store: Any = None,
    *,
    has_whole_experts: bool = False,
) -> tuple[Ranks, Stage]:
    """Join the other ranks, as `connect` does. Returns the ranks of this process's stage, which
    divide its layers among them, and the stage. Rank r is in stage r // (ranks of a stage)."""
    store = _store(meeting, store)
    world = _group(dist.PrefixStore("world", store), meeting, rank, device)
    size = len(meeting.addresses) // num_stages
    index, inner = divmod(rank, size)
    stage = Stage(index, num_stages, world, num_micro_batches)
    if num_stages == 1:
        return replace(world, has_whole_experts=has_whole_experts), stage
    if size == 1:
        return ONE_RANK, stage
    own = dist.PrefixStore(f"stage {index}", store)
    ranks = _group(own, meeting.of_ranks(index * size, size), inner, device)
    return replace(ranks, has_whole_experts=has_whole_experts), stage


def _store(meeting: Meeting, store: Any) -> Any:
    if store is not None:
        return store
    timeout = timedelta(seconds=meeting.timeout_s)
    return dist.TCPStore(meeting.addresses[0], meeting.port, len(meeting.addresses), False, timeout)


def _group(store: Any, meeting: Meeting, rank: int, device: torch.device) -> Ranks:
    size = len(meeting.addresses)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        # The executor reports a failure and then aborts; NCCL itself would end the process.
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = _NCCL_TIMEOUT
        group = dist.ProcessGroupNCCL(store, rank, size, options)
        _keep_for_ever(group)
        alone = Ranks(rank, size, GroupCollectives(group))
        if not env.shares_memory() or not meeting.is_on_one_host:
            return alone
        memory = CudaMemory(dist.PrefixStore("memory", store), rank, size, device)
        places = MemoryPlaces(
            memory, rank, size, device, meeting.timeout_s, lambda value: alone.least(value, device)
        )
        return Ranks(rank, size, GroupCollectives(group, places))
    kind: Any = dist.ProcessGroupGloo
    gloo = kind._Options()
    gloo._timeout = timedelta(seconds=meeting.timeout_s)
    gloo._devices = [kind.create_device(hostname=meeting.addresses[rank])]
    try:
        return Ranks(rank, size, GlooCollectives(kind(store, rank, size, gloo)))
    except RuntimeError as cause:
        raise CollectiveFailed(f"another rank did not connect in time: {cause}") from cause


def _keep_for_ever(group: Any) -> None:
    """Keep the group alive until the process ends. Its destructor would wait half an hour for
    graphs that are destroyed after it. `abort` frees the group's resources."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
