"""Owns the limits that each slot's request sets for its drafts, in device memory."""

from __future__ import annotations

import torch

from specguide.batch import SlotEntry
from specguide.config.spec import MOST_DRAFTS


class SlotDrafts:
    """Limits of drafts at fixed addresses. Where drafts come from the host, the callbacks know the
    limits too.

    num_model: int32 [num_slots], most drafts of a draft head or model
    row_slots: int64 [num_slots], the slot whose bitmask rows these drafts are masked with: the slot
               itself, or, for unguided drafts, the last slot, which never has a request and whose
               rows are free
    """

    def __init__(self, num_slots: int, device: torch.device) -> None:
        self.num_model = torch.full((num_slots,), MOST_DRAFTS, dtype=torch.int32, device=device)
        self.row_slots = torch.arange(num_slots, device=device)

    def limits_of(self, slot: int, entry: SlotEntry) -> tuple[int, int]:
        """num_model and row_slots of a slot that a request enters."""
        most = MOST_DRAFTS if entry.layout is None else entry.layout.num_model
        return most, slot if entry.guided_drafts else len(self.row_slots) - 1
