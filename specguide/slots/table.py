"""Owns the device state of each slot, in buffers at fixed addresses."""

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
    SlotState,
    SlotTensors,
    slot_rows,
)
from specguide.sampling import SlotAdjustments
from specguide.slots.drafts import SlotDrafts
from specguide.slots.nodes import SlotNodes

Slots = slice | Tensor
"""The slots of an iteration: int64 [B], or a slice of the first B slots, whose state is then read
in place."""


@dataclass(frozen=True)
class SlotSizes:
    """How large a slot table is.

    num_slots:  most requests at once, plus one: the last slot is for the padding of batches
    max_pages:  most pages of a request
    page_size:  tokens a page
    vocab_size: width of the logits
    layout:     the drafts that there may be
    has_adapters: requests may choose a LoRA adapter
    has_states: the target keeps a state for each slot
    image_token_id: the token that stands for each vector of an image; None: it reads no images
    num_axes:   3 where rotation has positions in time, height and width, else 0
    """

    num_slots: int
    max_pages: int
    page_size: int
    vocab_size: int
    layout: DraftLayout
    has_adapters: bool = False
    has_states: bool = False
    image_token_id: int | None = None
    num_axes: int = 0


class SlotTable:
    """The device state of each slot, at fixed addresses.

    A write is queued behind the iterations under way, as one copy; the host does not wait for them.

    The last slot never has a request: it is the slot of the rows that pad a batch.

    sizes:         how large the table is
    ids:           int64 [num_slots], the slots' numbers
    active:        bool [num_slots], the slot has a request that has not ended
    adapter_ids:   int32 [num_slots], the LoRA adapter of the slot's request, 0 for none
    position_shifts: int64 [num_slots], see SlotEntry.position_shift
    lengths:       int64 [num_slots], positions whose keys are stored, which is also the position of
                   the golden token
    max_lens:      int64 [num_slots], the request ends at this number of tokens, prompt and output
    end_ids:       int32 [num_slots, MAX_END_IDS], tokens that end the request, -2 for none
    block_table:   int32 [num_slots, max_pages], -1 where there is no page
    nodes:         the tokens to verify next, and how many of the last ones were accepted
    host_nodes:    the same memory, mapped for callbacks on the host, where these use it
    sampling:      the slots' sampling parameters
    drafts:        the limits that the slots' requests set for their drafts
    attention:     the backend that runs attention over the slots' pages
    """

    def __init__(
        self, sizes: SlotSizes, device: torch.device, *, is_shared_with_host: bool = True
    ) -> None:
        """is_shared_with_host: callbacks on the host read and write the nodes, which are therefore
        in pinned memory on a GPU"""
        num_slots = sizes.num_slots
        self.ids = torch.arange(num_slots, device=device)
        self.active = torch.zeros(num_slots, dtype=torch.bool, device=device)
        self.adapter_ids = torch.zeros(num_slots, dtype=torch.int32, device=device)
        self.position_shifts = torch.zeros(num_slots, dtype=torch.int64, device=device)
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
        """How the slots' requests adjust their logits; allocated when first used."""
        return SlotAdjustments.neutral(len(self.ids), self.sizes.vocab_size, self.ids.device)

    def enter(self, batch: Batch) -> None:
        """Write the requests of a prefill into their slots. A request is active from its last chunk
        on."""
        self.write(self.entering(batch))

    def entering(self, batch: Batch) -> list[SlotRow]:
        """The rows that `enter` writes, for a caller that writes them itself."""
        parts = zip(batch.slots, batch.block_tables, batch.chunks, batch.entries, strict=True)
        rows = []
        for slot, table, chunk, entry in parts:
            # A padded row that runs for this slot before it is active must not touch its keys.
            is_active = chunk.next_id is None
            state = SlotState(chunk.end, is_active, entry.adapter, entry.position_shift)
            rows.append(SlotRow(slot, table, state, entry=self._enter(slot, entry)))
        return rows

    def change(self, batch: Batch) -> None:
        """Write what changes with a decode iteration: block tables that have grown, requests that
        decode from now on, and block tables of requests whose chunks ride along and that are not
        active yet."""
        tables = zip(batch.slots, batch.block_tables, batch.has_grown, strict=False)
        grown = [SlotRow(slot, table) for slot, table, has_grown in tables if has_grown]
        self.write([*grown, *self._started(batch), *_beside(batch.piggyback)])

    def leave(self, slots: Sequence[int]) -> None:
        """Clear slots: from now on no key is stored and no token accepted for them."""
        self.write([SlotRow(slot, None, SlotState(0, is_active=False)) for slot in slots])

    def write(self, rows: Sequence[SlotRow]) -> None:
        """Write rows, if there are any, into their slots."""
        if rows:
            self.write_packed(slot_rows(rows, self.ids.device))

    def write_packed(self, rows: Tensor) -> None:
        """As `write`, for rows that `slot_rows` has put on the device, int64 [R, columns]."""
        write_slots(rows, self._written)

    def _started(self, batch: Batch) -> Iterator[SlotRow]:
        for row, entry, last_id, position, _ in batch.starts:
            slot = batch.slots[row]
            values = self._enter(slot, entry)
            state = SlotState(position, True, entry.adapter, entry.position_shift)
            yield SlotRow(slot, batch.block_tables[row], state, last_id, values)

    @cached_property
    def _written(self) -> SlotTensors:
        return SlotTensors(
            self.lengths,
            self.active,
            self.adapter_ids,
            self.position_shifts,
            self.max_lens,
            self.end_ids,
            self.block_table,
            self.nodes.tokens,
            self.drafts.num_model,
            self.drafts.row_slots,
            self.sampling,
        )

    def _enter(self, slot: int, entry: SlotEntry) -> EntryValues:
        """Write the slot's adjustments, or clear those of an earlier request. Returns the values
        that are still to be written."""
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
    for slot, table, chunk, adapter in zip(*piggyback, strict=True):
        yield SlotRow(slot, table, SlotState(chunk.end, False, adapter))
