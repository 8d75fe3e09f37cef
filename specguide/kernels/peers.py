"""Owns Peers, the memory through which ranks exchange values, and the plain-torch all-reduce over
it.

Each rank writes its values into the memory of every other rank, and waits in its own memory until
theirs have arrived. There are no flags; the values themselves are the signal, as in Lamport's
channel with one writer and one reader. An empty place holds -0.0, which nobody sends (a rank sends
0.0 instead); the reader puts -0.0 back after it has read a value. So one kernel is enough, and no
barrier is needed.

A row has two places for each rank, used in turn. A rank writes into a place again only after it has
read the others' values of the turn between; they sent these after they had emptied the place.

Either each rank sends its values to all others, or, where that would be much data, to the one rank
that owns the row: the owner adds them up and sends out the sum. Both use the same places.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST_SPARED = 1 << 20
"""Minimum bytes saved that pay for a second trip between ranks, some 2.5 microseconds over
NVLink."""
_BITS = {2: torch.int16, 4: torch.int32}
NOTHING = {bits: torch.iinfo(bits).min for bits in _BITS.values()}
"""The bits of -0.0, by integer dtype."""


@dataclass(frozen=True, eq=False)
class Peers:
    """Places for rows of one size. All ranks use them at the same time, with equally many rows.

    rank:     this process's rank
    buffers:  each rank's memory, as this process sees it: int16 or int32, bits of `dtype`, [ranks,
              2, most_rows, D], indexed by sender, turn and row
    pointers: int64 [ranks], addresses of the buffers, on this rank's device
    turns:    int32 [most_rows], how often each program has used the places of its rows
    aborted:  int32 [1], in the host's memory; once it is not 0 nobody waits any longer
    dtype:    the dtype of the values
    most_polls: maximum polls of an empty place; after these `aborted` is set
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
        """Peers in `memory`. Nothing may have been written to this rank's part yet.

        memory: each rank's, uint8 [peers_num_bytes(…)]
        shape:  maximum rows, and their size D
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
        """The maximum rows in one call."""
        return self.buffers[0].shape[2]

    def has_owners(self, num_rows: int) -> bool:
        """Whether, for so many rows, each row is added up by one owner that sends out the sum. A
        rank then sends 2 · (ranks - 1) / ranks times the bytes of all rows, instead of ranks - 1
        times."""
        row_bytes = self.buffers[0].shape[3] * self.dtype.itemsize
        others = self.num_ranks - 1
        return num_rows * row_bytes * (others - 2 * others / self.num_ranks) >= _LEAST_SPARED


def peers_num_bytes(num_ranks: int, shape: tuple[int, int], dtype: torch.dtype) -> int:
    """Size of each rank's memory, bytes."""
    return num_ranks * 2 * shape[0] * shape[1] * dtype.itemsize


def rows_each(dim: int) -> int:
    """Number of rows of `dim` values that one program handles, and whose turns therefore change
    together."""
    return max(1, 1024 // (1 << (dim - 1).bit_length()))


def sum_over_ranks(parts: Tensor, peers: Peers) -> Tensor:
    """The sum of all ranks' parts [P, T, D]: [T, D] in the peers' dtype.

    Each rank rounds its own sum to that dtype. The ranks' sums are then added in float32 in the
    order of ranks, so that the result is bitwise the same on all ranks.
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
    """The values that arrive in a place, which is then emptied again."""
    own = peers.buffers[peers.rank]
    nothing = NOTHING[own.dtype]
    while (own[place] == nothing).any() and not peers.aborted.item():
        time.sleep(0)
    values = own[place]
    own[place] = nothing
    return values
