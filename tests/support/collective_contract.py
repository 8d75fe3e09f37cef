"""What every implementation of Collectives must do, as one of two ranks sees it."""

from __future__ import annotations

import multiprocessing

import torch

from specguide.kernels import sum_over_ranks
from specguide.kernels.shared_memory import mapped
from specguide.parallel import Meeting, Ranks, connect


def check(ranks: Ranks, device: torch.device, *, shares_memory: bool = True) -> None:
    """Both ranks call it."""
    collectives, rank = ranks.collectives, ranks.rank
    first = torch.arange(6.0, device=device).view(2, 3)
    mine = first * (rank + 1)
    assert torch.equal(collectives.sum(mine.clone()), first * 3)
    assert torch.equal(collectives.gather(mine), torch.stack([first, first * 2]))
    told = mine.clone()
    collectives.broadcast(told, root=1)
    assert torch.equal(told, first * 2)
    if rank == 0:
        collectives.send(first, 1).wait()
    else:
        received = torch.empty_like(first)
        collectives.receive(received, 0)
        assert torch.equal(received, first)
    assert ranks.least(5 - rank, device) == 4
    assert (collectives.peers(1, 32, torch.float32) is not None) == shares_memory
    for dtype in (torch.float32, torch.bfloat16) if shares_memory else ():
        _check_sums(ranks, device, dtype)
    memory = collectives.host_memory(64)
    assert (memory is not None) == shares_memory
    if memory is not None:
        _check_host_memory(ranks, memory[0], device)


def _check_sums(ranks: Ranks, device: torch.device, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(ranks.rank)
    for num_rows in [3, 1, 70, 3] * 3:
        peers = ranks.collectives.peers(num_rows, 96, dtype)
        assert peers is not None
        own = torch.randn(2, num_rows, 96, generator=generator).to(device)
        every = ranks.collectives.gather(own.sum(0).to(dtype)).float()
        assert torch.equal(sum_over_ranks(own, peers), (every[0] + every[1]).to(dtype))


def _check_host_memory(ranks: Ranks, memory: torch.Tensor, device: torch.device) -> None:
    """Each rank finds what the other one, or its device, has written."""
    on_device = memory if device.type == "cpu" else mapped(memory, device)
    assert not memory.any()
    ranks.collectives.sum(torch.ones(1, device=device))
    memory[ranks.rank] = 5 + ranks.rank
    on_device[8 + ranks.rank] = 7 + ranks.rank
    assert ranks.least(1, device) == 1
    for found in (memory, on_device):
        assert found[:2].tolist() == [5, 6] and found[8:10].tolist() == [7, 8]
    ranks.collectives.sum(torch.ones(1, device=device))


def _run(meeting: Meeting, device_type: str, shares_memory: bool) -> None:
    device = torch.device(device_type, 1 if device_type == "cuda" else None)
    check(connect(meeting, 1, device), device, shares_memory=shares_memory)


def check_in_two_processes(device_type: str, *, shares_memory: bool) -> None:
    """This one is rank 0."""
    meeting, store = Meeting.open(2, 60.0)
    args = meeting, device_type, shares_memory
    other = multiprocessing.get_context("spawn").Process(target=_run, args=args)
    other.start()
    device = torch.device(device_type, 0 if device_type == "cuda" else None)
    check(connect(meeting, 0, device, store), device, shares_memory=shares_memory)
    other.join(60)
    assert other.exitcode == 0
