"""Two ranks of this process, for parts of models that are cut among them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from specguide.parallel import Meeting, Ranks, connect

T = TypeVar("T")


def each_of_two(run: Callable[[Ranks], T], *, has_whole_experts: bool = False) -> list[T]:
    """The results of `run` for either rank."""
    meeting, store = Meeting.open(2, 60.0)

    def connected(rank: int) -> T:
        own = store if rank == 0 else None
        device = torch.device("cpu")
        return run(connect(meeting, rank, device, own, has_whole_experts=has_whole_experts))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(connected, range(2)))
