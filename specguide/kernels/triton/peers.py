"""Owns the Triton sum over ranks (all-reduce): on its own, or as a part of the norm that
follows."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.peers import Peers, rows_each
from specguide.kernels.triton.device import await_results, overlap

_POLLS_BETWEEN = tl.constexpr(1 << 14)


class PeerArguments(NamedTuple):
    """Peers in the form that kernels take; without peers every field is None or 0, and no kernel
    reads any."""

    pointers: Tensor | None = None
    turns: Tensor | None = None
    aborted: Tensor | None = None
    most_rows: int = 0
    most_polls: int = 0

    @classmethod
    def of(cls, peers: Peers | None) -> PeerArguments:
        if peers is None:
            return cls()
        most = peers.most_rows, peers.most_polls
        return cls(peers.pointers, peers.turns, peers.aborted, *most)


class Tile(NamedTuple):
    """A program's part of some rows: rows `row` [ROWS, 1], columns `dim` [1, BLOCK], which of these
    exist, and the turn."""

    row: Any
    dim: Any
    exists: Any
    turn: Any


def rank_constants(peers: Peers | None) -> dict[str, Any]:
    """Constants of a launch: RANK and NUM_RANKS."""
    if peers is None:
        return {"RANK": 0, "NUM_RANKS": 1}
    return {"RANK": peers.rank, "NUM_RANKS": peers.num_ranks}


def sum_constants(peers: Peers | None, num_rows: int) -> dict[str, Any]:
    """Constants of a launch that sums so many rows: those of the ranks, and HAS_OWNERS."""
    has_owners = peers is not None and peers.has_owners(num_rows)
    return {**rank_constants(peers), "HAS_OWNERS": has_owners}


@triton.jit
def _buffer_of(rank, peers, BITS: tl.constexpr):
    """A pointer to a rank's buffer."""
    address = tl.load(peers.pointers + rank)
    return tl.multiple_of(address.to(tl.pointer_type(BITS)), 16)


@triton.jit
def is_aborted(aborted, polls):
    """Whether waits are aborted. This is looked up only every few milliseconds because the flag is
    in the host's memory: if hundreds of warps read it at once, that takes a quarter of a
    millisecond."""
    found = polls < 0
    if polls % _POLLS_BETWEEN == _POLLS_BETWEEN - 1:
        found = tl.load(aborted, volatile=True) != 0
    return found


@triton.jit
def _await_bits(place, exists, peers, NOTHING: tl.constexpr):
    """Wait for the values that arrive in places, then empty these. After an abort the values are
    whatever the places hold.

    Each place is polled by exactly one thread: copies of a value in several threads could differ
    while it is awaited.
    """
    found = tl.load(place, mask=exists, other=0, volatile=True)
    is_awaited = found == NOTHING
    polls = tl.full((), 0, tl.int32)
    # All threads leave the loop together, as soon as each has seen its values or the abort.
    while (tl.max(is_awaited.to(tl.int32)) != 0) & (polls < peers.most_polls):
        found = tl.load(place, mask=exists, other=0, volatile=True)
        is_awaited = (found == NOTHING) & ~is_aborted(peers.aborted, polls)
        polls += 1
    if polls == peers.most_polls:
        tl.store(peers.aborted, 1)
    tl.store(place, tl.full(found.shape, NOTHING, found.dtype), mask=exists)
    return found


@triton.jit
def sendable(bits):
    """The bits in the form that may be sent: -0.0 becomes 0.0."""
    NOTHING: tl.constexpr = -(2**15) if bits.dtype.primitive_bitwidth == 16 else -(2**31)
    return tl.where(bits == NOTHING, tl.zeros_like(bits), bits)


@triton.jit
def _place_of(rank, peers, tile, DIM: tl.constexpr):
    """The place in every rank's buffer to which this rank sends."""
    section = peers.most_rows.to(tl.int64) * 2 * DIM * rank
    row = (tile.turn & 1) * peers.most_rows + tile.row
    return section + row.to(tl.int64) * DIM + tile.dim


@triton.jit
def _send_to(rank, bits, peers, tile, DIM: tl.constexpr, RANK: tl.constexpr):
    place = _buffer_of(rank, peers, bits.dtype) + _place_of(RANK, peers, tile, DIM)
    tl.store(place, bits, mask=tile.exists)


@triton.jit
def send_bits(bits, peers, tile, DIM: tl.constexpr, RANK: tl.constexpr, NUM_RANKS: tl.constexpr):
    """Send bits [ROWS, BLOCK], which must be sendable, to all other ranks. No other program handles
    these rows."""
    for rank in tl.static_range(NUM_RANKS):
        if rank != RANK:
            _send_to(rank, bits, peers, tile, DIM, RANK)


@triton.jit
def _bits_from(rank, bits, peers, tile, DIM: tl.constexpr, RANK: tl.constexpr):
    """The bits that another rank sent, in the shape of this rank's `bits`."""
    NOTHING: tl.constexpr = -(2**15) if bits.dtype.primitive_bitwidth == 16 else -(2**31)
    place = _buffer_of(RANK, peers, bits.dtype) + _place_of(rank, peers, tile, DIM)
    return _await_bits(place, tile.exists, peers, NOTHING)


@triton.jit
def bits_of_rank(rank: tl.constexpr, bits, peers, tile, DIM: tl.constexpr, RANK: tl.constexpr):
    """The bits of any rank, in the shape of this rank's `bits`; call it after `send_bits`."""
    found = bits
    if rank != RANK:
        found = _bits_from(rank, bits, peers, tile, DIM, RANK)
    return found


@triton.jit
def _sum_of_all(
    bits,
    peers,
    tile,
    DTYPE: tl.constexpr,
    DIM: tl.constexpr,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
):
    """The sum of this rank's bits and those of all others, float32."""
    total = tl.zeros(bits.shape, tl.float32)
    for rank in tl.static_range(NUM_RANKS):
        theirs = bits_of_rank(rank, bits, peers, tile, DIM, RANK)
        total += theirs.to(DTYPE, bitcast=True).to(tl.float32)
    return total


@triton.jit
def _sum_by_owner(
    bits,
    peers,
    tile,
    DTYPE: tl.constexpr,
    DIM: tl.constexpr,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
):
    """Like `_sum_of_all`, rounded to DTYPE: one rank adds up a program's rows and sends the sum to
    the others.

    A rank that has received the sum knows that all ranks have reached this turn, so places become
    free as in the other way.
    """
    owner = tl.program_id(0) % NUM_RANKS
    if owner == RANK:
        total = _sum_of_all(bits, peers, tile, DTYPE, DIM, RANK, NUM_RANKS)
        found = sendable(total.to(DTYPE).to(bits.dtype, bitcast=True))
        send_bits(found, peers, tile, DIM, RANK, NUM_RANKS)
    else:
        _send_to(owner, bits, peers, tile, DIM, RANK)
        found = _bits_from(owner, bits, peers, tile, DIM, RANK)
    return found.to(DTYPE, bitcast=True).to(tl.float32)


@triton.jit
def sum_over_ranks_of(
    values,
    peers,
    row,
    dim,
    exists,
    DTYPE: tl.constexpr,
    DIM: tl.constexpr,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
    HAS_OWNERS: tl.constexpr,
):
    """The sum of all ranks' values, float32 [ROWS, BLOCK], each rounded to DTYPE. One program has
    whole rows, `row` [ROWS, 1], and the same ones in each call; dim: [1, BLOCK]."""
    BITS: tl.constexpr = tl.int16 if DTYPE.primitive_bitwidth == 16 else tl.int32
    turn = tl.load(peers.turns + tl.program_id(0))
    tile = Tile(row, dim, exists, turn)
    bits = sendable(values.to(DTYPE).to(BITS, bitcast=True))
    if HAS_OWNERS:
        total = _sum_by_owner(bits, peers, tile, DTYPE, DIM, RANK, NUM_RANKS)
    else:
        send_bits(bits, peers, tile, DIM, RANK, NUM_RANKS)
        total = _sum_of_all(bits, peers, tile, DTYPE, DIM, RANK, NUM_RANKS)
    tl.store(peers.turns + tl.program_id(0), turn + 1)
    return total


@triton.jit(do_not_specialize=["num_rows"])
def _sum_kernel(
    parts,
    output,
    peers,
    num_rows,
    row_stride,
    part_stride,
    NUM_PARTS: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
    HAS_OWNERS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    dim = tl.arange(0, BLOCK)[None, :]
    exists = (row < num_rows) & (dim < DIM)
    await_results(OVERLAP)
    source = parts + row.to(tl.int64) * row_stride + dim
    values = tl.load(source, mask=exists, other=0).to(tl.float32)
    for part in tl.static_range(1, NUM_PARTS):
        values += tl.load(source + part * part_stride, mask=exists, other=0)
    kept: tl.constexpr = output.dtype.element_ty
    total = sum_over_ranks_of(
        values, peers, row, dim, exists, kept, DIM, RANK, NUM_RANKS, HAS_OWNERS
    )
    tl.store(output + row.to(tl.int64) * DIM + dim, total.to(kept), mask=exists)


def sum_over_ranks(parts: Tensor, peers: Peers) -> Tensor:
    """See peers.sum_over_ranks."""
    num_parts, num_rows, dim = parts.shape
    output = torch.empty(num_rows, dim, dtype=peers.dtype, device=parts.device)
    block = triton.next_power_of_2(dim)
    _sum_kernel[(triton.cdiv(num_rows, rows_each(dim)),)](
        parts,
        output,
        PeerArguments.of(peers),
        num_rows,
        parts.stride(1),
        parts.stride(0),
        NUM_PARTS=num_parts,
        DIM=dim,
        ROWS=rows_each(dim),
        BLOCK=block,
        num_warps=min(8, max(1, block // 512)),
        **sum_constants(peers, num_rows),
        **overlap(parts.device),
    )
    return output
