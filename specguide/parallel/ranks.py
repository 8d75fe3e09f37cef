"""Owns Ranks: which of an engine's ranks this process is, and which part of a matrix it holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from specguide.errors import InvalidParams
from specguide.parallel.collectives import Collectives, NoCollectives


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks that run one model together (Shoeybi et al. 2019, "Megatron-LM").

    rank:        this process's number; the engine's loop runs on rank 0
    size:        number of ranks
    collectives: the communication between them
    has_whole_experts: each rank has some whole experts of a mixture; else it has a part of the
                 features of every expert
    """

    rank: int = 0
    size: int = 1
    collectives: Collectives = field(default_factory=NoCollectives)
    has_whole_experts: bool = False

    def share(self, total: int, what: str) -> int:
        """Each rank's share of `total`. Raises InvalidParams where it cannot be divided.

        what: words for the error, for example "attention heads"
        """
        if total % self.size:
            raise InvalidParams(
                f"{total} {what} cannot be divided evenly among {self.size} ranks: set "
                "tensor_parallel_size to a number that divides them",
                param="tensor_parallel_size",
            )
        return total // self.size

    def groups(self, total: int) -> Ranks:
        """Where each of `total` parts is shared by equally many ranks: these groups, each seen as
        one rank. Otherwise the ranks themselves."""
        if self.size % total:
            return self
        return replace(self, rank=self.rank * total // self.size, size=total)

    def least(self, value: int, device: torch.device) -> int:
        """The least of all ranks' values. All ranks must call it."""
        mine = torch.tensor([value], dtype=torch.int64, device=device)
        return int(self.collectives.gather(mine).min())


ONE_RANK = Ranks()
"""One process has the whole model."""
