"""Owns the device state of each slot, at fixed addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.batch import Batch, Piggyback, SlotEntry
from specguide.drafts.layout import DraftLayout
from specguide.kernels import SamplingTensors, write_slots
from specguide.kernels.attention import attention_backend
from specguide.kernels.slot_rows import (
    MAX_END_IDS,
    NO_END_ID,
    EntryValues,
    SlotRow,
    SlotTensors,
    slot_rows,
)
from specguide.sampling import SlotAdjustments
from specguide.slots.drafts import SlotDrafts
from specguide.slots.nodes import SlotNodes

Slots = slice | Tensor
"""Which slots an iteration is about: int64 [B], or the first B of them, whose state is then read in
place."""


@dataclass(frozen=True)
class SlotSizes:
    """How large a slot table is.

    num_slots:  one more than there may be requests: what fills up a batch of fixed size stands in
                the last one
    max_pages:  most pages of a request
    page_size:  tokens a page
    vocab_size: width of the logits
    layout:     the drafts that there may be
    """

    num_slots: int
    max_pages: int
    page_size: int
    vocab_size: int
    layout: DraftLayout


class SlotTable:
    """What the device knows of each slot, at fixed addresses.

    What is written goes behind the iterations under way, in one copy, and the host does not wait
    for these.

    The last slot never has a request: what fills up a batch of fixed size stands there.

    sizes:         how large it is
    ids:           int64 [num_slots], the slots' numbers
    active:        bool [num_slots], a request is there and has not ended
    lengths:       int64 [num_slots], positions whose keys are stored; the golden token's position
    max_lens:      int64 [num_slots], tokens, prompt and output, at which the request ends
    end_ids:       int32 [num_slots, MAX_END_IDS], tokens that end it, -2 for none
    block_table:   int32 [num_slots, max_pages], -1 where there is no page
    nodes:         the tokens that are verified next, and how many of the last ones were accepted
    host_nodes:    the same memory as host callbacks have it, where these have a part in it
    sampling:      the slots' sampling parameters
    drafts:        what the slots' requests let be drafted
    attention:     what runs the attention of forward passes over the slots' pages
    """

    def __init__(
        self, sizes: SlotSizes, device: torch.device, *, is_shared_with_host: bool = True
    ) -> None:
        """is_shared_with_host: callbacks on the host read and write the nodes, so that on a GPU
        these are in pinned memory"""
        num_slots = sizes.num_slots
        self.ids = torch.arange(num_slots, device=device)
        self.active = torch.zeros(num_slots, dtype=torch.bool, device=device)
        self.lengths = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.max_lens = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.end_ids = torch.full(
            (num_slots, MAX_END_IDS), NO_END_ID, dtype=torch.int32, device=device
        )
        self.block_table = torch.full(
            (num_slots, sizes.max_pages), -1, dtype=torch.int32, device=device
        )
        self.sampling = SamplingTensors.neutral(num_slots, device)
        self.drafts = SlotDrafts(num_slots, device)
        self.attention = attention_backend(device)
        self.sizes = sizes
        self._adjusted: set[int] = set()
        if is_shared_with_host and device.type == "cuda":
            host = torch.device("cpu")
            self.host_nodes = SlotNodes.allocate(num_slots, sizes.layout, host, pinned=True)
            self.nodes = self.host_nodes.on_device(device)
        else:
            self.nodes = self.host_nodes = SlotNodes.allocate(num_slots, sizes.layout, device)

    @cached_property
    def adjustments(self) -> SlotAdjustments:
        """What the slots' requests do to their logits; allocated once it is first asked for."""
        return SlotAdjustments.neutral(len(self.ids), self.sizes.vocab_size, self.ids.device)

    def enter(self, batch: Batch) -> None:
        """Take in requests of a prefill. They are active once their last chunk runs."""
        self.write(self.entering(batch))

    def entering(self, batch: Batch) -> list[SlotRow]:
        """The rows that `enter` writes, for who writes them itself."""
        parts = zip(batch.slots, batch.block_tables, batch.chunks, batch.entries, strict=True)
        rows = []
        for slot, table, chunk, entry in parts:
            # Whatever runs along for a slot that is not active yet must not touch its keys.
            state = chunk.end, chunk.next_id is None
            rows.append(SlotRow(slot, table, state, entry=self._enter(slot, entry)))
        return rows

    def change(self, batch: Batch) -> None:
        """Take in what a decode iteration changes: block tables that have grown, requests that
        decode from now on, and tables of those whose chunks run beside, who are not active yet."""
        tables = zip(batch.slots, batch.block_tables, batch.has_grown, strict=False)
        grown = [SlotRow(slot, table) for slot, table, has_grown in tables if has_grown]
        self.write([*grown, *self._started(batch), *_beside(batch.piggyback)])

    def leave(self, slots: Sequence[int]) -> None:
        """Forget slots: from now on nothing is stored for them and nothing accepted."""
        self.write([SlotRow(slot, None, (0, False)) for slot in slots])

    def write(self, rows: Sequence[SlotRow]) -> None:
        """Put rows, if there are any, into their slots."""
        if rows:
            self.write_packed(slot_rows(rows, self.ids.device))

    def write_packed(self, rows: Tensor) -> None:
        """As `write`, of rows int64 [R, columns] that are on the device, as `slot_rows` makes
        them."""
        write_slots(rows, self._written)

    def _started(self, batch: Batch) -> Iterator[SlotRow]:
        for row, entry, last_id, position, _ in batch.starts:
            slot = batch.slots[row]
            values = self._enter(slot, entry)
            yield SlotRow(slot, batch.block_tables[row], (position, True), last_id, values)

    @cached_property
    def _written(self) -> SlotTensors:
        return SlotTensors(
            self.lengths,
            self.active,
            self.max_lens,
            self.end_ids,
            self.block_table,
            self.nodes.tokens,
            self.drafts.num_model,
            self.drafts.row_slots,
            self.sampling,
        )

    def _enter(self, slot: int, entry: SlotEntry) -> EntryValues:
        """Write the slot's adjustments, which may still be those of an earlier request; what else
        is to be written."""
        if entry.adjusted is not None:
            self.adjustments.write(slot, *entry.adjusted)
            self._adjusted.add(slot)
        elif slot in self._adjusted:
            self.adjustments.clear(slot)
            self._adjusted.remove(slot)
        end_ids = [token for token in entry.end_ids if token < self.sizes.vocab_size]
        limits = self.drafts.limits_of(slot, entry)
        return EntryValues(entry.max_len, end_ids[:MAX_END_IDS], entry.sampling, *limits)


def _beside(piggyback: Piggyback) -> Iterator[SlotRow]:
    parts = zip(piggyback.slots, piggyback.block_tables, piggyback.chunks, strict=True)
    return (SlotRow(slot, table, (chunk.end, False)) for slot, table, chunk in parts)
