"""Owns what the grammar callbacks write for the iteration: rows, flags and proposals."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor

from specguide.kernels import BitmaskRows
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


@dataclass(frozen=True, eq=False)
class GrammarBuffers:
    """What the callbacks tell the step, at fixed addresses. N nodes a slot: W + 1, or the places of
    a tree; here max_batch_size counts the spare slot of the slot table too.

    bitmask:      int32 [N, max_batch_size, words], row [j, slot] says what may follow the slot's
                  node j
    guided:       uint8 [N, max_batch_size], 1: the row counts; 0: its request is free there,
                  kernels skip it
    held:         uint8 [max_batch_size], 1: target rows are late, this iteration accepts nothing
                  for the slot
    needed:       int32 [1], how many callbacks' rows the forward stream waits for or soon will;
                  counts on the host
    proposals:    where some drafts come from the host

    The callbacks write all but `needed`. On a GPU the step has a copy of the first three.
    """

    bitmask: Tensor
    guided: Tensor
    held: Tensor
    needed: Tensor
    proposals: ProposalBuffers | None = None

    @classmethod
    def allocate(
        cls,
        max_batch_size: int,
        num_nodes: int,
        num_words: int,
        *,
        pinned: bool = False,
    ) -> GrammarBuffers:
        """All zero, on the host."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=pinned)

        return cls(
            bitmask=zeros(num_nodes, max_batch_size, num_words, dtype=torch.int32),
            guided=zeros(num_nodes, max_batch_size, dtype=torch.uint8),
            held=zeros(max_batch_size, dtype=torch.uint8),
            needed=zeros(1, dtype=torch.int32),
        )

    def on_device(self, device: torch.device) -> GrammarBuffers:
        """What the step on a GPU has for these pinned buffers."""
        copies = {
            name: torch.zeros_like(getattr(self, name), device=device)
            for name in ("bitmask", "guided", "held")
        }
        return replace(
            self, **copies, proposals=self.proposals and self.proposals.on_device(device)
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """As the executor takes them, by name."""
        buffers = {field.name: getattr(self, field.name) for field in fields(self)}
        group = buffers.pop("proposals")
        if group is not None:
            buffers |= {field.name: getattr(group, field.name) for field in fields(group)}
        return {name: buffer.numpy() for name, buffer in buffers.items()}


class BufferRows:
    """The rows of a `GrammarStream`, as they lie in its buffers.

    buffers:         what the step reads, on its device
    held, proposals: of the buffers
    """

    def __init__(self, buffers: GrammarBuffers) -> None:
        self.buffers = buffers
        self.held, self.proposals = buffers.held, buffers.proposals
        self._all_rows = buffers.bitmask.flatten(0, 1), buffers.guided.flatten()
        num_nodes, num_slots = buffers.guided.shape
        row_ids = torch.arange(num_nodes * num_slots, device=buffers.guided.device)
        self._row_ids = row_ids.view(
            num_nodes, num_slots
        ).T.contiguous()  # of each slot's nodes, in all rows

    def chain_rows(self, slots: slice | Tensor, num_nodes: int) -> BitmaskRows:
        return self.rows(self._row_ids[slots, :num_nodes].flatten())

    def place_rows(self, slots: slice | Tensor, places: Tensor) -> BitmaskRows:
        num_slots = len(self._row_ids)
        return self.rows((places * num_slots + self._row_ids[slots, :1]).flatten())

    def node_rows(self, node: int, slots: Tensor) -> BitmaskRows:
        return BitmaskRows(self.buffers.bitmask[node], self.buffers.guided[node], slots)

    def rows(self, row_ids: Tensor) -> BitmaskRows:
        return BitmaskRows(*self._all_rows, row_ids)


@dataclass(frozen=True, eq=False)
class RowsOnGpu:
    """The callbacks' pinned buffers, and the GPU's copies that the step reads.

    on_bus: the pinned `bitmask` and `guided` themselves, as the device reads them over the bus
    """

    host: GrammarBuffers
    device: GrammarBuffers
    on_bus: tuple[Tensor, Tensor]

    @classmethod
    def allocate(cls, host: GrammarBuffers, device: torch.device) -> RowsOnGpu:
        """All copies zero."""
        on_bus = mapped(host.bitmask, device), mapped(host.guided, device)
        return cls(host, host.on_device(device), on_bus)

    def copy_flags(self) -> None:
        """Which rows count, to the device."""
        self.device.guided.copy_(self.host.guided, non_blocking=True)
