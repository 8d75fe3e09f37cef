"""Owns RowChannel, memory through which one rank's bitmask rows reach the others, and the
plain-torch kernels over it.

A row is written before a flag, which says whose turn it is, so that who waits for the row copies
it as soon as it is there. A row has two places, which it uses in turn. Its sender may write into a
place again once the receivers have taken part in anything that all did after they had read it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class RowChannel:
    """For `num_places` rows of `num_words` words, of which each is sent to all other ranks.

    rank:     this one
    memory:   of each rank, as this process sees it, int32 [2 · num_places · (num_words + 1)]: rows
              of either turn, then their flags
    pointers: int64 [ranks], to these, on this rank's device
    turns:    int32 [num_places], how often each was used
    aborted:  int32 [1], of the host's memory, not 0: nobody waits any more
    most_polls: looks at a flag, at most
    """

    rank: int
    memory: tuple[Tensor, ...]
    pointers: Tensor
    turns: Tensor
    aborted: Tensor
    num_words: int
    most_polls: int

    @classmethod
    def over(
        cls, rank: int, memory: list[Tensor], num_words: int, aborted: Tensor, most_polls: int
    ) -> RowChannel:
        """memory: of each rank, uint8 [row_channel_num_bytes(…)], all zero"""
        device = memory[rank].device
        num_places = memory[rank].nbytes // (8 * (num_words + 1))
        pointers = torch.tensor([it.data_ptr() for it in memory], dtype=torch.int64).to(device)
        turns = torch.zeros(num_places, dtype=torch.int32, device=device)
        words = tuple(it.view(torch.int32) for it in memory)
        return cls(rank, words, pointers, turns, aborted, num_words, most_polls)

    @property
    def num_places(self) -> int:
        """Rows that it has place for."""
        return len(self.turns)

    def parts(self, rank: int) -> tuple[Tensor, Tensor]:
        """Of a rank's memory: rows [2, num_places, num_words], and their flags [2, num_places]."""
        num = 2 * self.num_places * self.num_words
        rows, flags = self.memory[rank][:num], self.memory[rank][num:]
        return rows.view(2, -1, self.num_words), flags.view(2, -1)


def row_channel_num_bytes(num_places: int, num_words: int) -> int:
    """Of each rank's memory."""
    return 8 * num_places * (num_words + 1)


def send_rows(
    bitmask: Tensor, guided: Tensor, held: Tensor, channel: RowChannel, first_place: int
) -> None:
    """To all other ranks.

    bitmask: int32 [N, S, words], of which guided rows count; guided: uint8 [N, S]
    held:    uint8 [S]
    first_place: of the channel, for these N · S rows
    """
    places = first_place + torch.arange(guided.numel())
    turns = channel.turns[places]
    flags = (turns + 1) * 4 + held.int().expand(guided.shape).flatten() * 2 + guided.flatten()
    for rank in range(len(channel.memory)):
        if rank != channel.rank:
            its_rows, its_flags = channel.parts(rank)
            its_rows[turns & 1, places] = bitmask.flatten(0, 1)
            its_flags[turns & 1, places] = flags
    channel.turns[places] += 1


def take_rows(
    bitmask: Tensor, guided: Tensor, held: Tensor, channel: RowChannel, first_place: int
) -> None:
    """Wait for rows, and write them as `send_rows` was given them; those that do not count are left
    as they are."""
    places = first_place + torch.arange(guided.numel())
    turns = channel.turns[places]
    rows, flags = channel.parts(channel.rank)
    while (flags[turns & 1, places] >> 2 != turns + 1).any() and not channel.aborted.item():
        time.sleep(0)
    found = flags[turns & 1, places].view(guided.shape)
    is_guided = found & 1
    guided.copy_(is_guided)
    held.copy_(found[0] >> 1 & 1)
    sent = rows[turns & 1, places].view(bitmask.shape)
    bitmask.copy_(torch.where(is_guided[:, :, None] != 0, sent, bitmask))
    channel.turns[places] += 1
