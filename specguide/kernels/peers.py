"""Owns Peers, memory in which ranks leave values for one another, and the plain-torch sum over it.

Each rank writes its values into the memory of every other one, and waits in its own until theirs
are there. Nothing says that values have come but themselves: a place that waits holds a number that
nobody writes, -0.0 (a rank writes 0.0 for it), and is given it back once it has been read, as in
Lamport's channel of one writer and one reader. So one kernel is enough, and no barrier.

A row has two places for each rank, which it uses in turn. A rank writes into a place only once it
has read an answer to what it wrote there before the last time, so that place has been read.

Each rank tells all others, or, where that would be much, the one that owns the row: this one adds
up and tells the sum. The places are the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST_SPARED = 1 << 20
"""Bytes saved that pay for a second way between ranks, some 2.5 microseconds over NVLink."""
_BITS = {2: torch.int16, 4: torch.int32}
NOTHING = {bits: torch.iinfo(bits).min for bits in _BITS.values()}
"""The bits of -0.0."""


@dataclass(frozen=True, eq=False)
class Peers:
    """Places for rows of one size. All ranks use them at the same time, with equally many rows.

    rank:     this process's rank
    buffers:  each rank's memory, as this process sees it: int16 or int32, bits of `dtype`, [ranks,
              2, most_rows, D]: whose values, which turn, and which row
    pointers: int64 [ranks], addresses of the buffers, on this rank's device
    turns:    int32 [most_rows], how often places were used, by the program whose rows they are
    aborted:  int32 [1], in the host's memory; once it is not 0 nobody waits any more
    dtype:    the dtype of the values
    most_polls: most looks at a place that waits; then `aborted` is set
    """

    rank: int
    buffers: tuple[Tensor, ...]
    pointers: Tensor
    turns: Tensor
    aborted: Tensor
    dtype: torch.dtype
    most_polls: int

    @classmethod
    def over(
        cls,
        rank: int,
        memory: list[Tensor],
        shape: tuple[int, int],
        dtype: torch.dtype,
        aborted: Tensor,
        most_polls: int,
    ) -> Peers:
        """Places in `memory`. Nothing may have been written to this rank's part yet.

        memory: each rank's, uint8 [peers_num_bytes(…)]
        shape:  most rows, and their size D
        """
        bits = _BITS[dtype.itemsize]
        own = memory[rank]
        buffers = tuple(it.view(bits).view(len(memory), 2, *shape) for it in memory)
        buffers[rank].fill_(NOTHING[bits])
        pointers = torch.tensor([it.data_ptr() for it in memory], dtype=torch.int64)
        turns = torch.zeros(shape[0], dtype=torch.int32, device=own.device)
        return cls(rank, buffers, pointers.to(own.device), turns, aborted, dtype, most_polls)

    @property
    def num_ranks(self) -> int:
        """The number of ranks."""
        return len(self.buffers)

    @property
    def most_rows(self) -> int:
        """The most rows of a call."""
        return self.buffers[0].shape[2]

    def has_owners(self, num_rows: int) -> bool:
        """Whether each of so many rows is added up by one rank, which tells the others. A rank then
        sends 2 · (ranks - 1) / ranks times the bytes of all rows, and else ranks - 1 times
        these."""
        row_bytes = self.buffers[0].shape[3] * self.dtype.itemsize
        others = self.num_ranks - 1
        return num_rows * row_bytes * (others - 2 * others / self.num_ranks) >= _LEAST_SPARED


def peers_num_bytes(num_ranks: int, shape: tuple[int, int], dtype: torch.dtype) -> int:
    """Size of each rank's memory, bytes."""
    return num_ranks * 2 * shape[0] * shape[1] * dtype.itemsize


def rows_each(dim: int) -> int:
    """Number of rows of `dim` values that are one program's, and so take turns together."""
    return max(1, 1024 // (1 << (dim - 1).bit_length()))


def sum_over_ranks(parts: Tensor, peers: Peers) -> Tensor:
    """The sum of all ranks' parts [P, T, D]: [T, D] in the peers' dtype.

    Each rank's own sum is rounded to that dtype; theirs are added up in float32, in the order of
    ranks, so that the result is bitwise the same on all.
    """
    own = (parts[0] if len(parts) == 1 else parts.sum(0)).to(peers.dtype)
    bits = own.view(peers.buffers[0].dtype)
    every = exchange(bits, peers, rows_each(own.shape[1])).view(peers.dtype)
    return every.float().sum(0).to(peers.dtype)


def exchange(bits: Tensor, peers: Peers, num_each: int) -> Tensor:
    """The bits of all ranks: [T, D] of each → [ranks, T, D]; -0.0 becomes 0.0.

    num_each: number of rows that take turns together
    """
    bits = bits.masked_fill(bits == NOTHING[bits.dtype], 0)
    row = torch.arange(len(bits))
    program = row // num_each
    turn = peers.turns[program] & 1
    for rank, buffer in enumerate(peers.buffers):
        if rank != peers.rank:
            buffer[peers.rank, turn, row] = bits
    every = [
        bits if rank == peers.rank else _awaited(peers, (rank, turn, row))
        for rank in range(peers.num_ranks)
    ]
    peers.turns[: len(program.unique())] += 1
    return torch.stack(every)


def _awaited(peers: Peers, place: tuple[int, Tensor, Tensor]) -> Tensor:
    """The values that come into a place, which is then given back."""
    own = peers.buffers[peers.rank]
    nothing = NOTHING[own.dtype]
    while (own[place] == nothing).any() and not peers.aborted.item():
        time.sleep(0)
    values = own[place]
    own[place] = nothing
    return values
