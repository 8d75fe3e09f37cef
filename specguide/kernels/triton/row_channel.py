"""Owns the Triton kernels that send bitmask rows to other ranks and take them there, a program a
row."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.row_channel import RowChannel
from specguide.kernels.triton.peers import is_aborted

_BLOCK = 1024


class _Channel(NamedTuple):
    """A RowChannel as the kernels take it, and the first of its places that they use."""

    pointers: Tensor
    turns: Tensor
    aborted: Tensor
    num_places: Any
    num_words: Any
    most_polls: Any
    first_place: Any


@triton.jit
def _places_of(channel, rank, place, turn):
    """Pointers to a row and to its flag in a rank's memory."""
    memory = tl.load(channel.pointers + rank).to(tl.pointer_type(tl.int32))
    memory = tl.multiple_of(memory, 16)
    index = ((turn & 1) * channel.num_places + place).to(tl.int64)
    flags = memory + channel.num_places.to(tl.int64) * 2 * channel.num_words
    return memory + index * channel.num_words, flags + index


@triton.jit
def _send_kernel(
    bitmask,
    guided,
    held,
    channel,
    node_stride,
    slot_stride,
    guided_stride,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    slot, node = tl.program_id(0), tl.program_id(1).to(tl.int64)
    place = channel.first_place + tl.program_id(1) * tl.num_programs(0) + slot
    turn = tl.load(channel.turns + place)
    is_guided = tl.load(guided + node * guided_stride + slot).to(tl.int32)
    source = bitmask + node * node_stride + slot * slot_stride
    if is_guided != 0:
        for start in range(0, channel.num_words, BLOCK):
            word = start + tl.arange(0, BLOCK)
            words = tl.load(source + word, mask=word < channel.num_words, other=0)
            for rank in tl.static_range(NUM_RANKS):
                if rank != RANK:
                    row, _flag = _places_of(channel, rank, place, turn)
                    tl.store(row + word, words, mask=word < channel.num_words)
    tl.debug_barrier()
    value = (turn + 1) * 4 + tl.load(held + slot).to(tl.int32) * 2 + is_guided
    for rank in tl.static_range(NUM_RANKS):
        if rank != RANK:
            _row, flag = _places_of(channel, rank, place, turn)
            tl.atomic_xchg(flag, value, sem="release", scope="sys")
    tl.store(channel.turns + place, turn + 1)


@triton.jit
def _take_kernel(
    bitmask,
    guided,
    held,
    channel,
    node_stride,
    slot_stride,
    guided_stride,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    slot, node = tl.program_id(0), tl.program_id(1).to(tl.int64)
    place = channel.first_place + tl.program_id(1) * tl.num_programs(0) + slot
    turn = tl.load(channel.turns + place)
    row, flag = _places_of(channel, RANK, place, turn)
    found, polls = tl.load(flag, volatile=True), tl.full((), 0, tl.int32)
    while ((found >> 2) != (turn + 1)) & (polls < channel.most_polls):
        found = tl.load(flag, volatile=True)
        is_over = is_aborted(channel.aborted, polls)
        polls = tl.where(is_over, channel.most_polls, polls + 1)
    tl.debug_barrier()
    found = tl.atomic_add(flag, 0, sem="acquire", scope="sys")
    is_guided = found & 1
    if is_guided != 0:
        sink = bitmask + node * node_stride + slot * slot_stride
        for start in range(0, channel.num_words, BLOCK):
            word = start + tl.arange(0, BLOCK)
            words = tl.load(row + word, mask=word < channel.num_words, other=0, volatile=True)
            tl.store(sink + word, words, mask=word < channel.num_words)
    tl.store(guided + node * guided_stride + slot, is_guided.to(tl.uint8))
    if node == 0:
        tl.store(held + slot, ((found >> 1) & 1).to(tl.uint8))
    tl.store(channel.turns + place, turn + 1)


def send_rows(
    bitmask: Tensor, guided: Tensor, held: Tensor, channel: RowChannel, first_place: int
) -> None:
    """See row_channel.send_rows."""
    _launch(_send_kernel, bitmask, guided, held, channel, first_place)


def take_rows(
    bitmask: Tensor, guided: Tensor, held: Tensor, channel: RowChannel, first_place: int
) -> None:
    """See row_channel.take_rows."""
    _launch(_take_kernel, bitmask, guided, held, channel, first_place)


def _launch(
    kernel: Any,
    bitmask: Tensor,
    guided: Tensor,
    held: Tensor,
    channel: RowChannel,
    first_place: int,
) -> None:
    num_nodes, num_slots = guided.shape
    kernel[(num_slots, num_nodes)](
        bitmask,
        guided.view(torch.uint8),
        held.view(torch.uint8),
        _Channel(
            channel.pointers,
            channel.turns,
            channel.aborted,
            channel.num_places,
            channel.num_words,
            channel.most_polls,
            first_place,
        ),
        bitmask.stride(0),
        bitmask.stride(1),
        guided.stride(0),
        RANK=channel.rank,
        NUM_RANKS=len(channel.memory),
        BLOCK=_BLOCK,
        num_warps=4,
    )
