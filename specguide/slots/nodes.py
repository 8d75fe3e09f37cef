"""Owns the nodes of each slot: the tokens that an iteration verifies, and which were accepted."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from specguide.drafts.layout import DraftLayout
from specguide.kernels.shared_memory import mapped


@dataclass(frozen=True, eq=False)
class SlotNodes:
    """Nodes at fixed addresses. S slots, N nodes: golden token and drafts, or the places of a tree.

    tokens:        int32 [S, N], golden token and drafts; -1: no draft
    num_accepted:  int32 [S], drafts that the last verification accepted; -1: the slot was held
    parents:       int32 [S, N], the place of each node's parent, see `TreeExpansion`
    accepted_path: int32 [S, D], places of the drafts that the last verification accepted; the first
                   num_accepted count

    The last two are written only where drafts are trees.
    """

    tokens: Tensor
    num_accepted: Tensor
    parents: Tensor
    accepted_path: Tensor

    @classmethod
    def allocate(
        cls, num_slots: int, layout: DraftLayout, device: torch.device, *, pinned: bool = False
    ) -> SlotNodes:
        """New nodes, all zero."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device, pin_memory=pinned)

        return cls(
            tokens=zeros(num_slots, layout.num_places),
            num_accepted=zeros(num_slots),
            parents=zeros(num_slots, layout.num_places),
            accepted_path=zeros(num_slots, layout.num_drafts),
        )

    def on_device(self, device: torch.device) -> SlotNodes:
        """The same pinned memory, mapped for the device."""
        return SlotNodes(*(mapped(getattr(self, one.name), device) for one in fields(self)))
