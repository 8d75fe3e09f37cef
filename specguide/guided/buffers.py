"""Owns the buffers that the iteration and the grammar callbacks share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ProposalBuffers:
    """What step and callbacks also tell each other where some drafts come from the host.

    chain_len:    int32 [max_batch_size], drafts that there are; a draft head's next one comes
                  behind them
    origins:      uint8 [max_batch_size, N], who proposed the token of each node: see
                  batch.DRAFT_ORIGINS
    draft_rows:   int32 [max_batch_size, words], what may come behind the chain
    draft_guided: uint8 [max_batch_size], as `guided` for these rows

    The callbacks write all; a prefill clears the first two. On a GPU it has a copy of the last two,
    and the others are the callbacks' own memory.
    """

    chain_len: Tensor
    origins: Tensor
    draft_rows: Tensor
    draft_guided: Tensor

    @classmethod
    def allocate(
        cls, max_batch_size: int, num_nodes: int, num_words: int, *, pinned: bool = False
    ) -> ProposalBuffers:
        """All zero, on the host."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=pinned)

        return cls(
            chain_len=zeros(max_batch_size, dtype=torch.int32),
            origins=zeros(max_batch_size, num_nodes, dtype=torch.uint8),
            draft_rows=zeros(max_batch_size, num_words, dtype=torch.int32),
            draft_guided=zeros(max_batch_size, dtype=torch.uint8),
        )

    def on_device(self, device: torch.device) -> ProposalBuffers:
        """What the step on a GPU has for these pinned buffers."""
        return ProposalBuffers(
            chain_len=_mapped(self.chain_len, device),
            origins=_mapped(self.origins, device),
            draft_rows=torch.zeros_like(self.draft_rows, device=device),
            draft_guided=torch.zeros_like(self.draft_guided, device=device),
        )


@dataclass(frozen=True, eq=False)
class TreeBuffers:
    """What the step also tells the callbacks where drafts are trees, by place; see `TreeExpansion`.

    parents:       int32 [max_batch_size, N], the place of each node's parent
    accepted_path: int32 [max_batch_size, D], places of the drafts that the last verification
                   accepted, the first ones

    On a GPU they are the callbacks' own memory.
    """

    parents: Tensor
    accepted_path: Tensor

    @classmethod
    def allocate(
        cls, max_batch_size: int, num_nodes: int, depth: int, *, pinned: bool = False
    ) -> TreeBuffers:
        """All zero, on the host."""
        return cls(
            *(
                torch.zeros(max_batch_size, size, dtype=torch.int32, pin_memory=pinned)
                for size in (num_nodes, depth)
            )
        )

    def on_device(self, device: torch.device) -> TreeBuffers:
        """What the step on a GPU has for these pinned buffers."""
        return TreeBuffers(_mapped(self.parents, device), _mapped(self.accepted_path, device))


@dataclass(frozen=True, eq=False)
class GuideBuffers:
    """What step and callbacks tell each other, at fixed addresses. N nodes a slot: W + 1, or the
    places of a tree; here max_batch_size counts the spare slot of SlotState too.

    bitmask:      int32 [N, max_batch_size, words], row [j, slot] says what may follow the slot's
                  node j
    guided:       uint8 [N, max_batch_size], 1: the row counts; 0: its request is free there,
                  kernels skip it
    held:         uint8 [max_batch_size], 1: target rows are late, this iteration accepts nothing
                  for the slot
    tokens:       int32 [max_batch_size, N], golden token and drafts of each slot; -1 is no draft
    num_accepted: int32 [max_batch_size], drafts accepted by the last verification; -1: the slot was
                  held
    needed:       int32 [1], how many callbacks' rows the forward stream waits for or soon will;
                  counts on the host
    proposals:    where some drafts come from the host
    trees:        where drafts are trees

    The callbacks write the first three, and the tokens of their proposals; the step writes the
    others. On a GPU it has a copy of the first three, and tokens and accept counts are the
    callbacks' own memory.
    """

    bitmask: Tensor
    guided: Tensor
    held: Tensor
    tokens: Tensor
    num_accepted: Tensor
    needed: Tensor
    proposals: ProposalBuffers | None = None
    trees: TreeBuffers | None = None

    @classmethod
    def allocate(
        cls,
        max_batch_size: int,
        num_nodes: int,
        num_words: int,
        device: torch.device,
        *,
        pinned: bool = False,
    ) -> GuideBuffers:
        """All zero."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device, pin_memory=pinned)

        return cls(
            bitmask=zeros(num_nodes, max_batch_size, num_words, dtype=torch.int32),
            guided=zeros(num_nodes, max_batch_size, dtype=torch.uint8),
            held=zeros(max_batch_size, dtype=torch.uint8),
            tokens=zeros(max_batch_size, num_nodes, dtype=torch.int32),
            num_accepted=zeros(max_batch_size, dtype=torch.int32),
            needed=zeros(1, dtype=torch.int32),
        )

    def on_device(self, device: torch.device) -> GuideBuffers:
        """What the step on a GPU has for these pinned buffers."""
        copies = {
            name: torch.zeros_like(getattr(self, name), device=device)
            for name in ("bitmask", "guided", "held")
        }
        shared = {name: _mapped(getattr(self, name), device) for name in ("tokens", "num_accepted")}
        return replace(
            self,
            **copies,
            **shared,
            proposals=self.proposals and self.proposals.on_device(device),
            trees=self.trees and self.trees.on_device(device),
        )

    def rows_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The pinned `bitmask` and `guided` themselves, as the device reads them over the bus."""
        return _mapped(self.bitmask, device), _mapped(self.guided, device)

    def clear_chains(self, slots: Tensor) -> None:
        """Forget the drafts of `slots` int64 [B]."""
        self.tokens[slots, 1:] = -1
        if self.proposals is not None:
            self.proposals.chain_len[slots] = 0
            self.proposals.origins[slots] = 0

    def addresses(self) -> dict[str, int]:
        """As the executor takes them."""
        buffers = {field.name: getattr(self, field.name) for field in fields(self)}
        groups = buffers.pop("proposals"), buffers.pop("trees")
        buffers["rows"] = buffers.pop("bitmask")
        for group in groups:
            buffers |= (
                {field.name: getattr(group, field.name) for field in fields(group)} if group else {}
            )
        return {name: buffer.data_ptr() for name, buffer in buffers.items()}


def _mapped(pinned: Tensor, device: torch.device) -> Tensor:
    """The same memory as a tensor of the device, which reads and writes it over the bus; `pinned`
    must outlive it.

    All devices may, whichever pinned it. The ways that torch documents take it for the pinning
    device's, and copy.
    """
    mapped = torch.empty(0, dtype=pinned.dtype, device=device)
    storage = torch._C._construct_storage_from_data_pointer(
        pinned.data_ptr(), mapped.device, pinned.nbytes
    )
    return mapped.set_(storage, 0, pinned.shape, pinned.stride())
