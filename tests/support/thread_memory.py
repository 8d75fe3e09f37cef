"""Shared memory of ranks that are threads of the test's process."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from specguide.parallel import Ranks, connect
from specguide.parallel.collectives import GlooCollectives
from specguide.parallel.places import MemoryPlaces


class ThreadMemory:
    """The memory that one engine's ranks share."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self._given: dict[tuple[int, int], Tensor] = {}
        self.size = size

    def of(self, rank: int) -> OneRanksMemory:
        return OneRanksMemory(self, rank)

    def allocate(self, rank: int, index: int, num_bytes: int) -> list[Tensor]:
        """Allocate memory for a rank; returns the memory of all ranks."""
        self._given[index, rank] = torch.zeros(num_bytes, dtype=torch.uint8)
        self._barrier.wait(60)
        return [self._given[index, other] for other in range(self.size)]


@dataclass
class OneRanksMemory:
    memory: ThreadMemory
    rank: int
    num_allocated: int = 0

    def allocate(self, num_bytes: int) -> list[Tensor]:
        self.num_allocated += 1
        return self.memory.allocate(self.rank, self.num_allocated, num_bytes)

    def allocate_on_host(self, num_bytes: int) -> Tensor:
        return self.allocate(num_bytes)[0]


def put_in(patch: pytest.MonkeyPatch, num_ranks: int = 2) -> None:
    """Let the ranks of the next engine share memory, as on GPUs."""
    memory = ThreadMemory(num_ranks)

    def collectives(group: object) -> GlooCollectives:
        plain, cpu = GlooCollectives(group), torch.device("cpu")
        rank = group.rank()  # type: ignore[attr-defined]
        ranks = Ranks(rank, num_ranks, plain)
        own = memory.of(rank)
        places = MemoryPlaces(
            own, rank, num_ranks, cpu, 60.0, lambda value: ranks.least(value, cpu)
        )
        return GlooCollectives(group, places)

    patch.setattr(sys.modules[connect.__module__], "GlooCollectives", collectives)
