"""Owns what the grammar callbacks write for the iteration: rows, flags and proposals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor

from specguide.kernels import BitmaskRows, FilledRows, TakenRows, Wait, take_rows
from specguide.kernels.shared_memory import mapped


class WalkedNodes(Protocol):
    """What the callbacks read of the slots, on the host; see `slots.SlotNodes`.

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
    """What step and callbacks also tell each other where some drafts come from the host.

    chain_len: int32 [max_batch_size], drafts that there are; a draft head's next one comes behind
               them, and none where they are as many as there is room for
    origins:   uint8 [max_batch_size, N], who proposed the token of each node: see
               batch.DRAFT_ORIGINS

    The callbacks write both, and a prefill clears them. On a GPU the step has the same memory.
    """

    chain_len: Tensor
    origins: Tensor

    @classmethod
    def allocate(
        cls, max_batch_size: int, num_nodes: int, *, pinned: bool = False
    ) -> ProposalBuffers:
        """All zero, on the host."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=pinned)

        return cls(
            chain_len=zeros(max_batch_size, dtype=torch.int32),
            origins=zeros(max_batch_size, num_nodes, dtype=torch.uint8),
        )

    def clear(self, slots: Tensor) -> None:
        """Forget the chains of `slots` int64 [B]."""
        self.chain_len.index_fill_(0, slots, 0)
        self.origins.index_fill_(0, slots, 0)

    def on_device(self, device: torch.device) -> ProposalBuffers:
        """What the step on a GPU has for these pinned buffers."""
        return ProposalBuffers(
            chain_len=mapped(self.chain_len, device),
            origins=mapped(self.origins, device),
        )


Zeros = Callable[[tuple[int, ...], torch.dtype], Tensor]
"""Gives memory of the host, all zero, by shape and dtype."""


@dataclass(frozen=True, eq=False)
class GrammarBuffers:
    """What the callbacks tell the step, at fixed addresses on the host. N nodes a slot: W + 1, or
    the places of a tree; here max_batch_size counts the spare slot of the slot table too.

    bitmask:      int32 [N, max_batch_size, words], row [j, slot] says what may follow the slot's
                  node j
    fill_ids:     int64 [N, max_batch_size], 0: the request is free there, kernels skip the row;
                  else the number of the fill that wrote it, each has its own
    held:         uint8 [max_batch_size], 1: target rows are late, this iteration accepts nothing
                  for the slot
    needed:       int32 [1], how many callbacks' rows the forward stream waits for or soon will
    proposals:    where some drafts come from the host

    The callbacks write all but `needed`. On a GPU the step has a copy of the first three.
    """

    bitmask: Tensor
    fill_ids: Tensor
    held: Tensor
    needed: Tensor
    proposals: ProposalBuffers | None = None

    @classmethod
    def allocate(
        cls, max_batch_size: int, num_nodes: int, num_words: int, zeros: Zeros | None = None
    ) -> GrammarBuffers:
        """All zero, in ordinary memory where none is given."""
        make = zeros or plain_zeros
        return cls(
            bitmask=make((num_nodes, max_batch_size, num_words), torch.int32),
            fill_ids=make((num_nodes, max_batch_size), torch.int64),
            held=make((max_batch_size,), torch.uint8),
            needed=make((1,), torch.int32),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """As the executor takes them, by name."""
        buffers = {field.name: getattr(self, field.name) for field in fields(self)}
        group = buffers.pop("proposals")
        if group is not None:
            buffers |= {field.name: getattr(group, field.name) for field in fields(group)}
        return {name: buffer.numpy() for name, buffer in buffers.items()}


def plain_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Ordinary memory."""
    return torch.zeros(shape, dtype=dtype)


def pinned_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory that GPUs read and write over the bus."""
    return torch.zeros(shape, dtype=dtype, pin_memory=True)


class StepRows:
    """The rows of a `GrammarStream`, as the step reads them on its device: see GrammarBuffers.

    guided: integers [N, max_batch_size], not 0: the row counts
    """

    def __init__(
        self, bitmask: Tensor, guided: Tensor, held: Tensor, proposals: ProposalBuffers | None
    ) -> None:
        self.bitmask, self.guided, self.held, self.proposals = bitmask, guided, held, proposals
        self._all_rows = bitmask.flatten(0, 1), guided.flatten()
        num_nodes, num_slots = guided.shape
        row_ids = torch.arange(num_nodes * num_slots, device=guided.device)
        self._row_ids = row_ids.view(
            num_nodes, num_slots
        ).T.contiguous()  # of each slot's nodes, in all rows

    @classmethod
    def in_place(cls, buffers: GrammarBuffers) -> StepRows:
        """The host's own, for a step that runs there."""
        return cls(buffers.bitmask, buffers.fill_ids, buffers.held, buffers.proposals)

    @classmethod
    def of(cls, rows: RowCopies) -> StepRows:
        """The step's copies."""
        taken = rows.taken
        return cls(taken.bitmask, taken.guided, taken.held, rows.proposals)

    def chain_rows(self, slots: slice | Tensor, num_nodes: int) -> BitmaskRows:
        return self.rows(self._row_ids[slots, :num_nodes].flatten())

    def place_rows(self, slots: slice | Tensor, places: Tensor) -> BitmaskRows:
        num_slots = len(self._row_ids)
        return self.rows((places * num_slots + self._row_ids[slots, :1]).flatten())

    def node_rows(self, node: int, slots: Tensor) -> BitmaskRows:
        return BitmaskRows(self.bitmask[node], self.guided[node], slots)

    def rows(self, row_ids: Tensor) -> BitmaskRows:
        return BitmaskRows(*self._all_rows, row_ids)


class RowCopies:
    """Copies of what callbacks write, on the step's device.

    taken:     the copies
    proposals: the host's own, over the bus
    """

    def __init__(self, host: GrammarBuffers, device: torch.device) -> None:
        """host: in memory that the device reads"""
        bitmask, fill_ids = mapped(host.bitmask, device), mapped(host.fill_ids, device)
        self._filled = FilledRows(bitmask, fill_ids, None)
        self._held = mapped(host.held, device)
        self.taken = TakenRows(
            torch.zeros_like(host.bitmask, device=device),
            torch.zeros_like(host.fill_ids, device=device),
            torch.zeros_like(host.fill_ids, dtype=torch.uint8, device=device),
            torch.zeros_like(host.fill_ids, device=device),
            torch.zeros_like(host.held, device=device),
        )
        self.proposals = host.proposals and host.proposals.on_device(device)

    def take(self, nodes: slice, num_slots: int, wait: Wait | None, *, has_held: bool) -> None:
        """Some nodes' rows of the first slots, and which of these are held; see `take_rows`."""
        part = nodes, slice(0, num_slots)
        filled, taken = self._filled, self.taken
        copies = TakenRows(
            taken.bitmask[part],
            taken.fill_ids[part],
            taken.guided[part],
            taken.new_ids[part],
            taken.held[:num_slots],
        )
        held = self._held[:num_slots] if has_held else None
        take_rows(copies, FilledRows(filled.bitmask[part], filled.fill_ids[part], held), wait)
