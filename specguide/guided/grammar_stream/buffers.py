"""Owns the buffers that the grammar callbacks of an iteration write: rows, flags and proposals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor

from specguide.kernels.shared_memory import mapped


class WalkedNodes(Protocol):
    """The part of the slots that the callbacks read, on the host; see `slots.SlotNodes`.

    The callbacks write the tokens of their own proposals, and nothing else.
    """

    @property
    def tokens(self) -> Tensor: ...

    @property
    def num_accepted(self) -> Tensor: ...

    @property
    def parents(self) -> Tensor: ...

    @property
    def accepted_path(self) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class ProposalBuffers:
    """The buffers that step and callbacks share beside rows, where some drafts come from the host.

    chain_len: int32 [max_batch_size], number of drafts in the chain; a draft head appends its next
               one, unless the chain is full
    origins:   uint8 [max_batch_size, N], who proposed the token of each node: see
               batch.DRAFT_ORIGINS

    The callbacks write both, and a prefill clears them. On a GPU the step uses the same memory.
    """

    chain_len: Tensor
    origins: Tensor

    @classmethod
    def allocate(
        cls, max_batch_size: int, num_nodes: int, *, pinned: bool = False
    ) -> ProposalBuffers:
        """New buffers on the host, all zero."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=pinned)

        return cls(
            chain_len=zeros(max_batch_size, dtype=torch.int32),
            origins=zeros(max_batch_size, num_nodes, dtype=torch.uint8),
        )

    def clear(self, slots: Tensor) -> None:
        """Clear the chains of `slots` int64 [B]."""
        self.chain_len.index_fill_(0, slots, 0)
        self.origins.index_fill_(0, slots, 0)

    def on_device(self, device: torch.device) -> ProposalBuffers:
        """These pinned buffers as tensors on a GPU, for the step."""
        return ProposalBuffers(
            chain_len=mapped(self.chain_len, device),
            origins=mapped(self.origins, device),
        )


Zeros = Callable[[tuple[int, ...], torch.dtype], Tensor]
"""A function that allocates zeroed host memory of a shape and a dtype."""


@dataclass(frozen=True, eq=False)
class GrammarBuffers:
    """The buffers by which callbacks reach the step, at fixed addresses on the host. N nodes a
    slot: W + 1, or the places of a tree. Here max_batch_size includes the spare slot of the slot
    table.

    bitmask:      int32 [N, max_batch_size, words]; row [j, slot] says what may follow the slot's
                  node j
    fill_ids:     int64 [N, max_batch_size]; 0: the request is free there, and kernels skip the row;
                  else the row's number: rows with the same number are equal, and a number below 0
                  is never used again
    held:         uint8 [max_batch_size], 1: target rows are late, this iteration accepts nothing
                  for the slot
    needed:       int32 [1], number of callbacks for whose rows the forward stream waits, or soon
                  will
    proposals:    where some drafts come from the host
    num_kept_rows: number of the last rows with numbers above 0 that the step keeps

    The callbacks write all but `needed`. On a GPU the step has a copy of the first three.
    """

    bitmask: Tensor
    fill_ids: Tensor
    held: Tensor
    needed: Tensor
    proposals: ProposalBuffers | None = None
    num_kept_rows: int = 0

    @classmethod
    def allocate(
        cls, max_batch_size: int, num_nodes: int, num_words: int, zeros: Zeros | None = None
    ) -> GrammarBuffers:
        """New zeroed buffers, in memory that `zeros` allocates; by default in ordinary memory."""
        make = zeros or plain_zeros
        return cls(
            bitmask=make((num_nodes, max_batch_size, num_words), torch.int32),
            fill_ids=make((num_nodes, max_batch_size), torch.int64),
            held=make((max_batch_size,), torch.uint8),
            needed=make((1,), torch.int32),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The buffers as arrays, by their names in `native.GrammarBuffers`."""
        buffers = {field.name: getattr(self, field.name) for field in fields(self)}
        group = buffers.pop("proposals")
        del buffers["num_kept_rows"]
        if group is not None:
            buffers |= {field.name: getattr(group, field.name) for field in fields(group)}
        return {name: buffer.numpy() for name, buffer in buffers.items()}


def plain_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Ordinary host memory, zeroed."""
    return torch.zeros(shape, dtype=dtype)


def pinned_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Pinned host memory, zeroed, which GPUs read and write over the bus."""
    return torch.zeros(shape, dtype=dtype, pin_memory=True)
