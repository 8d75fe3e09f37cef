"""Owns the kernel, and its launch, that unpacks SlotRows into the tensors of the slots."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.slot_rows import MAX_END_IDS, Column, SlotTensors, Written

_BLOCK_PAGES = 128


class _Sampling(NamedTuple):
    """Pointers to the sampling parameters of all slots."""

    seed: Any
    temperature: Any
    top_k: Any
    top_p: Any
    min_p: Any


_COLUMNS = [tl.constexpr(int(column)) for column in Column]
_SLOT, _WRITTEN, _LENGTH, _IS_ACTIVE, _ADAPTER, _SHIFT, _GOLDEN, *_OF_ENTRY = _COLUMNS[:-2]
_END_IDS, _PAGES = _COLUMNS[-2:]
_MAX_LEN, _SEED, _TEMPERATURE, _TOP_K, _TOP_P, _MIN_P, _NUM_MODEL, _ROW_SLOT = _OF_ENTRY
_HAS_STATE, _HAS_GOLDEN, _HAS_ENTRY, _NO_PAGES = (tl.constexpr(int(part)) for part in Written)


def write_slots(rows: Tensor, slots: SlotTensors) -> None:
    """See kernels.slot_rows.write_slots."""
    sampling, tokens = slots.sampling, slots.tokens
    _write_kernel[(rows.shape[0],)](
        rows,
        rows.shape[1],
        slots.lengths,
        slots.active.view(torch.uint8),
        slots.adapter_ids,
        slots.position_shifts,
        slots.max_lens,
        slots.end_ids,
        slots.block_table,
        slots.block_table.stride(0),
        tokens,
        tokens.stride(0),
        slots.num_model,
        slots.row_slots,
        _Sampling(sampling.seed, *sampling.given()),
        NUM_NODES=tokens.shape[1],
        BLOCK_NODES=triton.next_power_of_2(tokens.shape[1]),
        NUM_ENDS=MAX_END_IDS,
        BLOCK_PAGES=_BLOCK_PAGES,
        num_warps=1,
    )


@triton.jit
def _float(bits):
    """The float32 of these bits."""
    return bits.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _write_sampling(row, slot, sampling):
    tl.store(sampling.seed + slot, tl.load(row + _SEED))
    tl.store(sampling.temperature + slot, _float(tl.load(row + _TEMPERATURE)))
    tl.store(sampling.top_k + slot, tl.load(row + _TOP_K))
    tl.store(sampling.top_p + slot, _float(tl.load(row + _TOP_P)))
    tl.store(sampling.min_p + slot, _float(tl.load(row + _MIN_P)))


@triton.jit
def _write_pages(row, num_given, table, num_pages, written, BLOCK_PAGES: tl.constexpr):
    """Write the given pages, or clear the whole table."""
    num_written = num_given
    if written & _NO_PAGES:
        num_written = num_pages
    for first in range(0, num_written, BLOCK_PAGES):
        place = first + tl.arange(0, BLOCK_PAGES)
        is_given = (place < num_given) & ((written & _NO_PAGES) == 0)
        page = tl.load(row + _PAGES + place, mask=is_given, other=-1)
        tl.store(table + place, page.to(tl.int32), mask=place < num_written)


@triton.jit(do_not_specialize=["num_columns"])
def _write_kernel(
    rows,
    num_columns,
    lengths,
    active,
    adapter_ids,
    position_shifts,
    max_lens,
    end_ids,
    block_table,
    num_pages,
    tokens,
    tokens_stride,
    num_model,
    row_slots,
    sampling,
    NUM_NODES: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
    NUM_ENDS: tl.constexpr,
    BLOCK_PAGES: tl.constexpr,
):
    """Put one row into its slot."""
    row = rows + tl.program_id(0).to(tl.int64) * num_columns
    slot, written = tl.load(row + _SLOT), tl.load(row + _WRITTEN)
    own_tokens = tokens + slot * tokens_stride
    if written & _HAS_STATE:
        tl.store(lengths + slot, tl.load(row + _LENGTH))
        tl.store(active + slot, tl.load(row + _IS_ACTIVE).to(tl.uint8))
        tl.store(adapter_ids + slot, tl.load(row + _ADAPTER).to(tl.int32))
        tl.store(position_shifts + slot, tl.load(row + _SHIFT))
    if written & _HAS_GOLDEN:
        tl.store(own_tokens, tl.load(row + _GOLDEN).to(tl.int32))
    if written & _HAS_ENTRY:
        node, end = tl.arange(0, BLOCK_NODES), tl.arange(0, NUM_ENDS)
        tl.store(own_tokens + node, -1, mask=(node > 0) & (node < NUM_NODES))
        tl.store(max_lens + slot, tl.load(row + _MAX_LEN))
        tl.store(end_ids + slot * NUM_ENDS + end, tl.load(row + _END_IDS + end).to(tl.int32))
        tl.store(num_model + slot, tl.load(row + _NUM_MODEL).to(tl.int32))
        tl.store(row_slots + slot, tl.load(row + _ROW_SLOT))
        _write_sampling(row, slot, sampling)
    num_given = num_columns - _PAGES
    _write_pages(row, num_given, block_table + slot * num_pages, num_pages, written, BLOCK_PAGES)
