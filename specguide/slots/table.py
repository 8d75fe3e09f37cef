"""Owns the device state of each slot, at fixed addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.batch import Batch, Piggyback, SlotEntry
from specguide.draft_layout import DraftLayout
from specguide.kernels import SamplingTensors, on_device
from specguide.kernels.attention import attention_backend
from specguide.sampling import SlotAdjustments
from specguide.slots.drafts import SlotDrafts
from specguide.slots.nodes import SlotNodes

Slots = slice | Tensor
"""Which slots an iteration is about: int64 [B], or the first B of them, whose state is then read in
place."""

MAX_END_IDS = 16
"""End tokens of a request that the device looks for; the host looks for all."""

_NO_END_ID = -2


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

    What is written goes behind the iterations under way, and the host does not wait for these. So
    it is written by `fill_`, `index_fill_` or from tensors on the device: to assign a number to
    `values[slots]` waits for the GPU in torch 2.11.

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
            (num_slots, MAX_END_IDS), _NO_END_ID, dtype=torch.int32, device=device
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

    def enter(self, batch: Batch, slots: Tensor) -> None:
        """Take in requests of a prefill; `slots` int64 [B] are theirs. They are active once their
        last chunk runs."""
        self._write_tables(slots, batch.block_tables)
        # Whatever runs along for a slot that is not active yet must not touch the keys that it has.
        self.lengths[slots] = on_device([chunk.end for chunk in batch.chunks], slots.device)
        self.active[slots] = on_device(
            [chunk.next_id is None for chunk in batch.chunks], slots.device
        )
        self.nodes.tokens[:, 1:].index_fill_(0, slots, -1)
        self._write_entries(batch.slots, slots, batch.entries)

    def start(self, batch: Batch) -> Tensor:
        """Take in the requests that decode from this iteration on; their slots, int64 [B]."""
        rows, entries, last_ids, positions, _ = zip(*batch.starts, strict=True)
        slots_of = [batch.slots[row] for row in rows]
        slots = on_device(slots_of, self.ids.device)
        self._write_tables(slots, [batch.block_tables[row] for row in rows])
        self.lengths[slots] = on_device(positions, slots.device)
        self.active.index_fill_(0, slots, True)
        self.nodes.tokens[:, 1:].index_fill_(0, slots, -1)
        self.nodes.tokens[slots, 0] = on_device(last_ids, slots.device, torch.int32)
        self._write_entries(slots_of, slots, entries)
        return slots

    def piggyback(self, piggyback: Piggyback) -> None:
        """Take in the tables of requests whose chunks run beside; they are not active yet."""
        if piggyback.chunks:
            slots = on_device(piggyback.slots, self.ids.device)
            self._write_tables(slots, piggyback.block_tables)
            self.lengths[slots] = on_device([chunk.end for chunk in piggyback.chunks], slots.device)
            self.active.index_fill_(0, slots, False)

    def _write_entries(
        self, slots_of: Sequence[int], slots: Tensor, entries: Sequence[SlotEntry]
    ) -> None:
        """slots_of: the same as `slots`, as the host has them"""
        self.max_lens[slots] = on_device([entry.max_len for entry in entries], slots.device)
        ends = [self._end_ids(entry) for entry in entries]
        self.end_ids[slots] = on_device(ends, slots.device, torch.int32)
        values = [entry.sampling for entry in entries]
        seeds = [each.seed for each in values]
        self.sampling.write(slots, SamplingTensors.from_params(values, seeds, slots.device))
        self.drafts.enter(slots_of, entries)
        for slot, entry in zip(slots_of, entries, strict=True):
            self._adjust(slot, entry)

    def _end_ids(self, entry: SlotEntry) -> list[int]:
        """Exactly MAX_END_IDS."""
        known = [token for token in entry.end_ids if token < self.sizes.vocab_size]
        return [*known, *[_NO_END_ID] * MAX_END_IDS][:MAX_END_IDS]

    def _adjust(self, slot: int, entry: SlotEntry) -> None:
        """Write the slot's adjustments, which may still be those of an earlier request."""
        if entry.adjusted is not None:
            self.adjustments.write(slot, *entry.adjusted)
            self._adjusted.add(slot)
        elif slot in self._adjusted:
            self.adjustments.clear(slot)
            self._adjusted.remove(slot)

    def grow(self, batch: Batch) -> None:
        """Take in the block tables that have changed."""
        grown = [index for index, has_grown in enumerate(batch.has_grown) if has_grown]
        if grown:
            slots = on_device([batch.slots[index] for index in grown], self.lengths.device)
            self._write_tables(slots, [batch.block_tables[index] for index in grown])

    def leave(self, slot: int) -> None:
        """Forget a slot: from now on nothing is stored for it and nothing accepted."""
        for values, nothing in ((self.active, False), (self.lengths, 0), (self.block_table, -1)):
            values[slot : slot + 1].fill_(nothing)

    def _write_tables(self, slots: Tensor, tables: Sequence[Sequence[int]]) -> None:
        """A table only grows until its slot is left, so columns beyond the longest one are -1
        already."""
        num_pages = max(map(len, tables))
        rows = [[*pages, *[-1] * (num_pages - len(pages))] for pages in tables]
        self.block_table[slots, :num_pages] = on_device(rows, slots.device, torch.int32)
