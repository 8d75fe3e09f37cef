"""Owns SlotRows: everything that the host writes into some slots before an iteration, packed in one
tensor that takes one copy to the device, and the operation that unpacks it there."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_int32
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.batch import SamplingValues
from specguide.kernels.host_values import on_device
from specguide.kernels.sampling_tensors import SamplingTensors

MAX_END_IDS = 16
"""Maximum end tokens of a request that the device checks; the host checks all of them."""

NO_END_ID = -2
_MOST = torch.iinfo(torch.int64).max


class Written(IntFlag):
    """The parts of a slot that a row writes, besides the beginning of its block table."""

    STATE = 1
    GOLDEN = 2
    ENTRY = 4
    NO_PAGES = 8


class Column(IntEnum):
    """The columns of a row: numbers with one meaning each, then end tokens, then pages."""

    SLOT = 0
    WRITTEN = 1
    LENGTH = 2
    IS_ACTIVE = 3
    ADAPTER = 4
    SHIFT = 5
    GOLDEN = 6
    MAX_LEN = 7
    SEED = 8
    TEMPERATURE = 9
    TOP_K = 10
    TOP_P = 11
    MIN_P = 12
    NUM_MODEL = 13
    ROW_SLOT = 14
    END_IDS = 15
    PAGES = 15 + MAX_END_IDS


class SlotTensors(NamedTuple):
    """The tensors that are written to; see SlotTable and SlotDrafts. None of them may be missing,
    nor may any sampling parameter be None."""

    lengths: Tensor
    active: Tensor
    adapter_ids: Tensor
    position_shifts: Tensor
    max_lens: Tensor
    end_ids: Tensor
    block_table: Tensor
    tokens: Tensor
    num_model: Tensor
    row_slots: Tensor
    sampling: SamplingTensors


class SlotState(NamedTuple):
    """How many positions of a slot have keys, whether a request decodes there, and the request's
    LoRA adapter, 0 for none, and position shift."""

    length: int
    is_active: bool
    adapter: int = 0
    shift: int = 0


class EntryValues(NamedTuple):
    """The values of a request that enters a slot.

    end_ids:  at most MAX_END_IDS
    num_model, row_slot: see SlotDrafts
    """

    max_len: int
    end_ids: Sequence[int]
    sampling: SamplingValues
    num_model: int
    row_slot: int

    def numbers(self) -> list[int]:
        """The values in the order of the columns from MAX_LEN on."""
        values = self.sampling
        return [
            self.max_len,
            values.seed,
            _bits(values.temperature),
            min(max(values.top_k, 0), _MOST),
            _bits(values.top_p),
            _bits(values.min_p),
            self.num_model,
            self.row_slot,
            *self.end_ids,
            *[NO_END_ID] * (MAX_END_IDS - len(self.end_ids)),
        ]


_NO_ENTRY = [0] * (Column.PAGES - Column.MAX_LEN)


@dataclass(frozen=True)
class SlotRow:
    """The values that are written into one slot; a field that is None stays as it is.

    pages:     the beginning of the block table, as long as it is now; None: the slot has no pages
               any more
    state:     see SlotState
    golden_id: the token that is verified first
    entry:     values of a request that enters the slot; the drafts of the one before are forgotten
    """

    slot: int
    pages: Sequence[int] | None
    state: SlotState | None = None
    golden_id: int | None = None
    entry: EntryValues | None = None

    def numbers(self, num_pages: int) -> list[int]:
        """The values of all columns, with `num_pages` columns for pages."""
        pages = self.pages or ()
        written = Written(0)
        if self.pages is None:
            written |= Written.NO_PAGES
        if self.state is not None:
            written |= Written.STATE
        if self.golden_id is not None:
            written |= Written.GOLDEN
        if self.entry is not None:
            written |= Written.ENTRY
        length, is_active, *of_request = self.state or SlotState(0, is_active=False)
        entry = self.entry.numbers() if self.entry is not None else _NO_ENTRY
        return [
            *(self.slot, int(written), length, int(is_active), *of_request, self.golden_id or 0),
            *entry,
            *pages,
            *[-1] * (num_pages - len(pages)),
        ]


def slot_rows(rows: Sequence[SlotRow], device: torch.device) -> Tensor:
    """The rows as one tensor int64 [rows, columns] on the device. Shorter tables are padded with
    -1, which the slot holds there anyway: a table only grows until its slot is released."""
    num_pages = max(len(row.pages or ()) for row in rows)
    return on_device([row.numbers(num_pages) for row in rows], device)


def write_slots(rows: Tensor, slots: SlotTensors) -> None:
    """Unpack rows int64 [R, columns], as `slot_rows` makes them, into the slots' tensors, in place.

    Two rows may be of the same slot only if they agree.
    """
    for row in rows.tolist():
        slot, written = row[Column.SLOT], Written(row[Column.WRITTEN])
        if Written.STATE in written:
            slots.lengths[slot] = row[Column.LENGTH]
            slots.active[slot] = bool(row[Column.IS_ACTIVE])
            slots.adapter_ids[slot] = row[Column.ADAPTER]
            slots.position_shifts[slot] = row[Column.SHIFT]
        if Written.GOLDEN in written:
            slots.tokens[slot, 0] = row[Column.GOLDEN]
        if Written.ENTRY in written:
            _write_entry(slot, row, slots)
        if Written.NO_PAGES in written:
            slots.block_table[slot] = -1
        else:
            pages = row[Column.PAGES :]
            slots.block_table[slot, : len(pages)] = torch.tensor(pages, dtype=torch.int32)


def _write_entry(slot: int, row: Sequence[int], slots: SlotTensors) -> None:
    sampling = slots.sampling
    slots.tokens[slot, 1:] = -1
    slots.max_lens[slot] = row[Column.MAX_LEN]
    slots.end_ids[slot] = torch.tensor(row[Column.END_IDS : Column.PAGES], dtype=torch.int32)
    slots.num_model[slot] = row[Column.NUM_MODEL]
    slots.row_slots[slot] = row[Column.ROW_SLOT]
    sampling.seed[slot] = row[Column.SEED]
    temperature, top_k, top_p, min_p = sampling.given()
    temperature[slot] = _number(row[Column.TEMPERATURE])
    top_k[slot] = row[Column.TOP_K]
    top_p[slot] = _number(row[Column.TOP_P])
    min_p[slot] = _number(row[Column.MIN_P])


def _bits(value: float) -> int:
    """The bits of a float32, as an int32; the bits of infinity if the value is too large."""
    return c_int32.from_buffer(c_float(value)).value


def _number(bits: int) -> float:
    """The float32 that has these bits."""
    return c_float.from_buffer(c_int32(bits)).value
