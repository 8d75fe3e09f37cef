"""Owns the Triton kernels that call the host and take rows from its memory.

The kernels behind a call start only once the call is made. So no kernel that waits for an answer
can start earlier, and mistake the answer to the call before for its own.

Reads of one place in the host's memory are serialised, a microsecond each. So a single warp waits
there and reads which rows were filled. It copies few rows by itself. The programs that copy many
rows look only at the device's memory, and may begin while the kernel before the wait, such as the
LM head's product, still runs.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

from specguide.kernels.host_calls import FilledRows, HostCall, KeptRows, TakenRows, Wait
from specguide.kernels.triton.device import overlap

_BLOCK = 4096
_IDS = 256
_MOST_BY_ONE = 8
"""Maximum rows that a single warp handles: most of them have been taken before."""
_POLLS_BETWEEN = tl.constexpr(1 << 10)


@triton.jit
def _await_number(word, number, aborted):
    """Wait until a word in the host's memory is `number`, or the wait is aborted."""
    found, polls = tl.load(word, volatile=True), tl.full((), 0, tl.int32)
    while found != number:
        found = tl.load(word, volatile=True)
        polls += 1
        if polls % _POLLS_BETWEEN == 0:
            found = tl.where(tl.load(aborted, volatile=True) != 0, number, found)


@triton.jit
def _call_kernel(
    due,
    called,
    announced,
    others,
    others_stride,
    aborted,
    NUM_OTHERS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        cuda.gdc_wait()
    if announced is not None:
        tl.store(announced, 0)
    # The atomic releases: the host also sees what earlier kernels have written.
    before = tl.atomic_add(called, 2, sem="acq_rel", scope="sys")
    number = (before + 2) | 1
    tl.store(called, number)
    for other in tl.static_range(NUM_OTHERS):
        _await_number(others + other * others_stride, number, aborted)
    tl.store(due, number)


@triton.jit
def _take_row(rows, node, slot, num_words, NUM_KEPT: tl.constexpr, BLOCK: tl.constexpr):
    """Take one row, as its id in `new_ids` tells."""
    place = node.to(tl.int64) * rows.id_stride + slot
    new_id = tl.load(rows.new_ids + place, volatile=True)
    if (new_id != 0) & (new_id != tl.load(rows.taken_fill_ids + place)):
        first = node.to(tl.int64) * rows.node_stride + slot * rows.slot_stride
        source = tl.full((), -1, tl.int32)
        if NUM_KEPT:
            source = tl.load(rows.sources + place, volatile=True)
        for start in range(0, num_words, BLOCK):
            word = start + tl.arange(0, BLOCK)
            exists = word < num_words
            is_missing = exists & (source < 0)
            words = tl.load(rows.bitmask + first + word, mask=is_missing, volatile=True)
            if NUM_KEPT:
                kept = rows.kept_bitmask + source.to(tl.int64) * num_words
                words = tl.load(kept + word, mask=exists & (source >= 0), other=words)
                new = rows.kept_bitmask + (new_id % NUM_KEPT) * num_words
                tl.store(new + word, words, mask=is_missing & (new_id > 0))
            tl.store(rows.taken_bitmask + first + word, words, mask=exists)
        tl.debug_barrier()
        tl.store(rows.taken_fill_ids + place, new_id)
        if NUM_KEPT:
            kept_id = rows.kept_ids + tl.where(new_id > 0, new_id % NUM_KEPT, 0)
            is_new = (source < 0) & (new_id > 0)
            tl.atomic_xchg(kept_id, new_id, mask=is_new, sem="release", scope="gpu")
    tl.store(rows.guided + place, (new_id != 0).to(tl.uint8))


@triton.jit(do_not_specialize=["number", "num_slots", "num_rows", "num_words"])
def _wait_kernel(
    wait,
    number,
    rows,
    num_slots,
    num_rows,
    num_words,
    IDS: tl.constexpr,
    NUM_KEPT: tl.constexpr,
    BLOCK: tl.constexpr,
    COPIES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Read which rows are new. wait: None: only wait for earlier kernels; COPIES: copy the rows,
    too"""
    if OVERLAP:
        cuda.gdc_launch_dependents()
        if wait is None:
            cuda.gdc_wait()
    awaited = None
    if wait is not None:
        tl.store(wait.announced, number)
        awaited = tl.load(wait.called, volatile=True)
        _await_number(wait.done, awaited, wait.aborted)
    for start in range(0, num_rows, IDS):
        row = start + tl.arange(0, IDS)
        place = (row // num_slots) * rows.id_stride + row % num_slots
        ids = tl.load(rows.fill_ids + place, mask=row < num_rows, volatile=True)
        tl.store(rows.new_ids + place, ids, mask=row < num_rows)
        if NUM_KEPT:
            may_be_kept = (row < num_rows) & (ids > 0)
            kept_place = tl.where(may_be_kept, ids % NUM_KEPT, 0)
            kept_id = tl.atomic_add(
                rows.kept_ids + kept_place, 0, mask=may_be_kept, sem="acquire", scope="gpu"
            )
            source = tl.where(may_be_kept & (kept_id == ids), kept_place, -1)
            tl.store(rows.sources + place, source.to(tl.int32), mask=row < num_rows)
    if rows.held is not None:
        for start in range(0, num_slots, IDS):
            slot = start + tl.arange(0, IDS)
            held = tl.load(rows.held + slot, mask=slot < num_slots, volatile=True)
            tl.store(rows.taken_held + slot, held, mask=slot < num_slots)
    tl.debug_barrier()
    if COPIES:
        for one in range(num_rows):
            _take_row(rows, one // num_slots, one % num_slots, num_words, 0, BLOCK)
    if wait is not None:
        tl.atomic_xchg(wait.over, awaited, sem="release", scope="gpu")
        if OVERLAP:
            cuda.gdc_wait()


class _Wait(NamedTuple):
    """Pointers to the words of a call, and to where a wait is announced."""

    done: Any
    called: Any
    over: Any
    aborted: Any
    announced: Any


class _Rows(NamedTuple):
    """FilledRows, TakenRows and KeptRows in the form that kernels take, and strides between
    rows."""

    bitmask: Any
    fill_ids: Any
    held: Any
    taken_bitmask: Any
    taken_fill_ids: Any
    guided: Any
    new_ids: Any
    sources: Any
    kept_bitmask: Any
    kept_ids: Any
    taken_held: Any
    node_stride: Any
    slot_stride: Any
    id_stride: Any


@triton.jit(do_not_specialize=["num_words"])
def _take_kernel(
    wait, rows, num_words, NUM_KEPT: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr
):
    """Take one row, once `_wait_kernel` has found out whether it is new."""
    if OVERLAP:
        cuda.gdc_launch_dependents()
        if wait is None:
            cuda.gdc_wait()
    if wait is not None:
        awaited = tl.load(wait.called, volatile=True)
        found = tl.load(wait.over, volatile=True)
        while found != awaited:
            found = tl.load(wait.over, volatile=True)
        tl.debug_barrier()
        tl.atomic_add(wait.over, 0, sem="acquire", scope="gpu")
    _take_row(rows, tl.program_id(1), tl.program_id(0), num_words, NUM_KEPT, BLOCK)
    if OVERLAP and wait is not None:
        cuda.gdc_wait()


def call_host(call: HostCall, announced: Tensor | None = None) -> None:
    """See host_calls.call_host."""
    _call_kernel[(1,)](
        call.due,
        call.called,
        announced,
        call.others,
        call.others.stride(0),
        call.aborted,
        NUM_OTHERS=len(call.others),
        num_warps=1,
        **overlap(call.device),
    )


def _rows_of(taken: TakenRows, filled: FilledRows, kept: KeptRows | None) -> _Rows:
    return _Rows(
        filled.bitmask,
        filled.fill_ids,
        None if filled.held is None else filled.held.view(torch.uint8),
        taken.bitmask,
        taken.fill_ids,
        taken.guided.view(torch.uint8),
        taken.new_ids,
        taken.sources,
        None if kept is None else kept.bitmask,
        None if kept is None else kept.ids,
        taken.held.view(torch.uint8),
        taken.bitmask.stride(0),
        taken.bitmask.stride(1),
        taken.guided.stride(0),
    )


def take_rows(
    taken: TakenRows, filled: FilledRows, wait: Wait | None, kept: KeptRows | None = None
) -> None:
    """See host_calls.take_rows. All bitmasks have the same strides, and so have all tensors [N, S].

    Few rows are read from the host each time and are not kept: one warp has no registers for that.
    """
    num_nodes, num_slots, num_words = taken.bitmask.shape
    num_rows = num_nodes * num_slots
    copies = num_rows <= _MOST_BY_ONE
    if copies:
        kept = None
    num_kept = 0 if kept is None else len(kept.ids)
    words = None
    number = 0
    if wait is not None:
        call, announced, number = wait
        words = _Wait(call.done, call.called, call.over, call.aborted, announced)
    rows = _rows_of(taken, filled, kept)
    overlapping = overlap(taken.device)
    _wait_kernel[(1,)](
        words,
        number,
        rows,
        num_slots,
        num_rows,
        num_words,
        IDS=_IDS,
        NUM_KEPT=num_kept,
        BLOCK=_BLOCK,
        COPIES=copies,
        num_warps=1,
        **overlapping,
    )
    if not copies:
        _take_kernel[(num_slots, num_nodes)](
            words,
            rows,
            num_words,
            NUM_KEPT=num_kept,
            BLOCK=_BLOCK,
            num_warps=8,
            **overlapping,
        )
