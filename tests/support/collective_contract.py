"""What every implementation of Collectives must do, as one of two ranks or more sees it."""

from __future__ import annotations

import multiprocessing

import torch

from specguide.kernels import sum_over_ranks
from specguide.kernels.shared_memory import mapped
from specguide.parallel import Meeting, Ranks, connect


def check(ranks: Ranks, device: torch.device, *, shares_memory: bool = True) -> None:
    """All ranks call it."""
    collectives, rank = ranks.collectives, ranks.rank
    first = torch.arange(6.0, device=device).view(2, 3)
    mine = first * (rank + 1)
    every = [first * (it + 1) for it in range(ranks.size)]
    assert torch.equal(collectives.sum(mine.clone()), sum(every))
    assert torch.equal(collectives.gather(mine), torch.stack(every))
    told = mine.clone()
    collectives.broadcast(told, root=1)
    assert torch.equal(told, first * 2)
    if rank == 0:
        collectives.send(first, 1).wait()
    elif rank == 1:
        received = torch.empty_like(first)
        collectives.receive(received, 0)
        assert torch.equal(received, first)
    assert ranks.least(9 - rank, device) == 10 - ranks.size
    assert (collectives.peers(1, 32, torch.float32) is not None) == shares_memory
    for dtype in (torch.float32, torch.bfloat16) if shares_memory else ():
        _check_sums(ranks, device, dtype)
    memory = collectives.host_memory(64)
    assert (memory is not None) == shares_memory
    if memory is not None:
        _check_host_memory(ranks, memory[0], device)


def _check_sums(ranks: Ranks, device: torch.device, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(ranks.rank)
    for num_rows, dim in [(3, 96), (1, 96), (70, 96), (3, 4096), (200, 4096), (3, 4096)] * 3:
        peers = ranks.collectives.peers(num_rows, dim, dtype)
        assert peers is not None
        own = torch.randn(2, num_rows, dim, generator=generator).to(device)
        every = ranks.collectives.gather(own.sum(0).to(dtype)).float()
        assert torch.equal(sum_over_ranks(own, peers), sum(every).to(dtype))


def _check_host_memory(ranks: Ranks, memory: torch.Tensor, device: torch.device) -> None:
    """Each of the first two ranks finds what the other one, or its device, has written."""
    on_device = memory if device.type == "cpu" else mapped(memory, device)
    assert not memory.any()
    assert ranks.least(1, device) == 1  # a sum would not keep this process from going on
    if ranks.rank < 2:
        memory[ranks.rank] = 5 + ranks.rank
        on_device[8 + ranks.rank] = 7 + ranks.rank
    assert ranks.least(1, device) == 1
    for found in (memory, on_device):
        assert found[:2].tolist() == [5, 6] and found[8:10].tolist() == [7, 8]
    ranks.collectives.sum(torch.ones(1, device=device))


def _run(meeting: Meeting, rank: int, device_type: str, shares_memory: bool) -> None:
    device = torch.device(device_type, rank if device_type == "cuda" else None)
    check(connect(meeting, rank, device), device, shares_memory=shares_memory)


def check_in_processes(device_type: str, *, shares_memory: bool, num_ranks: int = 2) -> None:
    """This one is rank 0."""
    meeting, store = Meeting.open(num_ranks, 60.0)
    spawn = multiprocessing.get_context("spawn").Process
    others = [
        spawn(target=_run, args=(meeting, rank, device_type, shares_memory))
        for rank in range(1, num_ranks)
    ]
    for other in others:
        other.start()
    device = torch.device(device_type, 0 if device_type == "cuda" else None)
    check(connect(meeting, 0, device, store), device, shares_memory=shares_memory)
    for other in others:
        other.join(60)
        assert other.exitcode == 0
