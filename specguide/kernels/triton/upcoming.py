"""Owns how a small kernel has the weight of the product behind it brought to the L2 cache.

Between two products of few rows a GPU's memory would stand idle: a norm, a rotation or a rounding
waits a few times for numbers of a few kilobytes. So such a kernel is launched with some programs
more, which ask for a part of what is read next as soon as the product before has ended. Asked for
earlier, it would take the memory's time from that product.

A product's programs each read all columns of some rows. The part is spread over rows and columns
alike, so that each of them finds as much of its own in the cache, and the memory is busy meanwhile
with the rest.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

from specguide.kernels.triton.device import overlap

_CHUNK = 1024
"""Bytes that are asked for at a time."""
MOST_BYTES = 16 << 20
"""Of a weight: about what the memory gives while a small kernel runs."""
_MOST_ROWS = 256
"""Beyond these a product does not wait for its weight."""


class Upcoming(NamedTuple):
    """Every so many bytes of some memory a chunk is brought; None: nothing is.

    memory: pointer to bytes
    """

    memory: Any
    num_chunks: Any
    step: Any


_NOTHING = Upcoming(None, 0, 0)


@triton.jit
def bring(upcoming, first_program, OVERLAP: tl.constexpr):
    """What the programs from `first_program` on do; a thread asks for a chunk. Behind
    `await_results`."""
    if upcoming.memory is not None and OVERLAP:
        program = tl.program_id(0) - first_program
        if program >= 0:
            NUM: tl.constexpr = cuda.num_threads()
            program = program * tl.num_programs(1) + tl.program_id(1)
            chunk = program * NUM + tl.arange(0, NUM)
            tl.inline_asm_elementwise(
                "{ .reg .pred wanted; setp.ne.s32 wanted, $2, 0; "
                "@wanted cp.async.bulk.prefetch.L2.global [$1], 1024; mov.u32 $0, 0; }",
                "=r,l,r",
                [
                    upcoming.memory + chunk.to(tl.int64) * upcoming.step,
                    (chunk < upcoming.num_chunks).to(tl.int32),
                ],
                dtype=tl.int32,
                is_pure=False,
                pack=1,
            )


def upcoming_of(
    weight: Tensor | None, num_rows: int, num_warps: int, width: int = 1
) -> tuple[Upcoming, int]:
    """What a kernel of so many warps is given to bring of the weight that so many rows are
    multiplied with next, and by how many rows of `width` programs more. Nothing where the device
    cannot do that."""
    if weight is None or num_rows > _MOST_ROWS or not weight.is_contiguous():
        return _NOTHING, 0
    if not overlap(weight.device)["OVERLAP"] or weight.nbytes < _CHUNK:
        return _NOTHING, 0
    every = _every(weight.nbytes // _CHUNK, weight.shape[-1] * weight.itemsize // _CHUNK)
    num_chunks = triton.cdiv(weight.nbytes // _CHUNK, every)
    memory = weight.view(torch.uint8)
    num_each = 32 * num_warps * width
    return Upcoming(memory, num_chunks, every * _CHUNK), triton.cdiv(num_chunks, num_each)


@cache
def _every(num_chunks: int, row_len: int) -> int:
    """One of so many chunks is brought, in each row at another column."""
    every = triton.cdiv(num_chunks * _CHUNK, MOST_BYTES)
    while math.gcd(every, max(1, row_len)) > 1:
        every += 1
    return every
