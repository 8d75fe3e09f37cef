"""Owns Ranks: which of an engine's ranks this process is, and what part of a matrix it holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from specguide.errors import InvalidParams
from specguide.parallel.collectives import Collectives, NoCollectives


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks that run one model together (Shoeybi et al. 2019, "Megatron-LM").

    rank:        this process's number; that of the engine's loop is 0
    size:        number of ranks
    collectives: what the ranks do together
    has_whole_experts: each rank has some experts of a mixture, all of their features; else some
                 features of all experts
    """

    rank: int = 0
    size: int = 1
    collectives: Collectives = field(default_factory=NoCollectives)
    has_whole_experts: bool = False

    def share(self, total: int, what: str) -> int:
        """Each rank's share of `total`. Raises InvalidParams where they cannot be divided.

        what: words for it, as "attention heads"
        """
        if total % self.size:
            raise InvalidParams(
                f"{total} {what} cannot be divided among {self.size} ranks: take a "
                "tensor_parallel_size that divides them",
                param="tensor_parallel_size",
            )
        return total // self.size

    def groups(self, total: int) -> Ranks:
        """The groups of ranks, each as one rank, where equally many ranks share each of `total`
        parts. Otherwise the ranks themselves."""
        if self.size % total:
            return self
        return replace(self, rank=self.rank * total // self.size, size=total)

    def least(self, value: int, device: torch.device) -> int:
        """The least of all ranks' values. All ranks must call it."""
        mine = torch.tensor([value], dtype=torch.int64, device=device)
        return int(self.collectives.gather(mine).min())


ONE_RANK = Ranks()
"""A model that one process has as a whole."""
