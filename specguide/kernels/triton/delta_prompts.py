"""Owns the kernels of the gated delta rule for prompts, and their launch.

A sequence is cut into tiles, of which the last one is full, so that it has all open tokens. What
does not depend on the matrix is computed for all tiles at once: the inverses of the triangular
systems. Then one program runs over a sequence's tiles, with some columns of the matrix at hand.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.delta_rule import DeltaHeads, DeltaPass, DeltaState
from specguide.kernels.triton.delta_places import (
    UNALIGNED,
    block_sequences,
    num_tiles,
    sequence_at,
    store_zeros,
    tile_at,
)
from specguide.kernels.triton.delta_rule_kernels import (
    Sizes,
    load_end,
    load_matrix,
    matrix_at,
    settle_many,
    sizes_of,
    unit_inverse,
)
from specguide.kernels.triton.device import await_results, overlap

_TILE = MOST_OPEN = 64
"""Tokens of a tile. The last tile has all tokens that stay open."""

_TILE_WARPS = 4
_NUM_COLUMNS, _SCAN_WARPS, _SCAN_STAGES = 32, 4, 3
"""Columns of a matrix that one program holds, and its warps and stages."""


class _Tiles(NamedTuple):
    """Of each token and head: its row of the inverse of its tile's system and of the tile's scores,
    decayed [T, H, TILE], and the sum of the decays in the tile up to the token [T, H].

    A score is the product of the token's query with another token's key.
    """

    inverses: Any
    scores: Any
    sums: Any


@triton.jit
def _zero_padding(
    output, bounds, num_sequences, num_tokens, head, sizes, TILE: tl.constexpr, BLOCK: tl.constexpr
):
    """Store zeros in the rows behind the last sequence; each program does some of them."""
    column = tl.arange(0, BLOCK)
    first = tl.load(bounds + num_sequences) + tl.program_id(0) * TILE
    store_zeros(output, first, num_tokens, tl.num_programs(0) * TILE, head, column, sizes, TILE)


@triton.jit
def _load_rows(source, start, token, head, dim, num_heads, num):
    """Some tokens of a head, [tokens, dimensions]; zeros where the number of a token is below 0."""
    row = ((start + token) * num_heads + head) * num
    mask = (token >= 0)[:, None] & (dim < num)[None, :]
    return tl.load(source + row[:, None] + dim[None, :], mask=mask, other=0)


@triton.jit(
    do_not_specialize=["num_tokens", "num_sequences"], do_not_specialize_on_alignment=UNALIGNED
)
def _tiles_kernel(
    heads,
    tiles,
    output,
    slots,
    bounds,
    opened,
    num_settled,
    num_tokens,
    num_sequences,
    sizes,
    TILE: tl.constexpr,
    BLOCK_KEY: tl.constexpr,
    BLOCK_VALUE: tl.constexpr,
    BLOCK_SEQUENCES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One head of one tile: what does not depend on the matrix. Outputs of tokens that belong to no
    slot are set to zero."""
    await_results(OVERLAP)
    head = tl.program_id(1)
    _zero_padding(output, bounds, num_sequences, num_tokens, head, sizes, TILE, BLOCK_VALUE)
    index, tile = tile_at(bounds, num_sequences, tl.program_id(0), TILE, BLOCK_SEQUENCES)
    if index >= num_sequences:
        return
    own = sequence_at(slots, bounds, opened, num_settled, index)
    place = tl.arange(0, TILE)
    first = own.length - (tl.cdiv(own.length, TILE) - tile) * TILE
    token = first + place
    if own.slot < 0:
        start = own.start + tl.maximum(first, 0)
        column = tl.arange(0, BLOCK_VALUE)
        store_zeros(output, start, own.start + first + TILE, TILE, head, column, sizes, TILE)
        return
    group, row_dim = head // (sizes.heads // sizes.groups), tl.arange(0, BLOCK_KEY)
    rows = own.start, token, group, row_dim, sizes.groups, sizes.key_dim
    key, query = _load_rows(heads.key, *rows), _load_rows(heads.query, *rows)
    row, exists = (own.start + token) * sizes.heads + head, token >= 0
    sums = tl.cumsum(tl.load(heads.decay + row, mask=exists, other=0), 0)
    strength = tl.load(heads.strength + row, mask=exists, other=0)
    between = tl.minimum(sums[:, None] - sums[None, :], 0.0)
    factors = tl.where(place[:, None] >= place[None, :], tl.exp(between), 0.0)
    scores = factors * tl.dot(query, tl.trans(key), input_precision="tf32x3")
    lower = strength[:, None] * factors * tl.dot(key, tl.trans(key), input_precision="tf32x3")
    lower = tl.where(place[:, None] > place[None, :], lower, 0.0)
    sink, mask = row[:, None] * TILE + place[None, :], exists[:, None]
    tl.store(tiles.sums + row, sums, mask=exists)
    tl.store(tiles.scores + sink, scores, mask=mask)
    tl.store(tiles.inverses + sink, unit_inverse(lower, TILE), mask=mask)


@triton.jit
def _run_tile(
    matrix, heads, tiles, own, token, num_final, head, row_dim, column, sizes, TILE: tl.constexpr
):
    """Some columns of one tile: the matrix behind its final tokens, and the tile's outputs, changes
    and decays."""
    group = head // (sizes.heads // sizes.groups)
    rows = own.start, token, group, row_dim, sizes.groups, sizes.key_dim
    key, query = _load_rows(heads.key, *rows), _load_rows(heads.query, *rows)
    place = tl.arange(0, TILE)
    rows = own.start, token, head, place, sizes.heads, TILE
    inverse, scores = _load_rows(tiles.inverses, *rows), _load_rows(tiles.scores, *rows)
    rows = own.start, token, head, column, sizes.heads, sizes.value_dim
    value = _load_rows(heads.value, *rows).to(tl.float32)
    row, exists = (own.start + token) * sizes.heads + head, token >= 0
    sums = tl.load(tiles.sums + row, mask=exists, other=0)
    strength = tl.load(heads.strength + row, mask=exists, other=0)
    narrow = matrix.to(key.dtype)
    start = tl.exp(sums)[:, None]
    stored = tl.dot(key, narrow, input_precision="tf32x3")
    wanted = (strength[:, None] * (value - start * stored)).to(key.dtype)
    change = tl.dot(inverse, wanted, input_precision="tf32x3")
    result = start * tl.dot(query, narrow, input_precision="tf32x3")
    result = tl.dot(scores, change.to(key.dtype), result, input_precision="tf32x3")
    is_final = token < num_final
    end = tl.min(tl.where(is_final, sums, 0.0), 0)
    weight = tl.where(is_final, tl.exp(tl.minimum(end - sums, 0.0)), 0.0)
    weighted = (change * weight[:, None]).to(key.dtype)
    matrix = tl.dot(tl.trans(key), weighted, matrix * tl.exp(end), input_precision="tf32x3")
    return matrix, result, change, sums - end


@triton.jit(do_not_specialize_on_alignment=UNALIGNED)
def _scan_kernel(
    heads,
    tiles,
    state,
    output,
    slots,
    bounds,
    opened,
    num_settled,
    settled,
    sizes,
    NUM_OPEN: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK_KEY: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some columns of one head's matrix of one sequence, and of all its outputs."""
    await_results(OVERLAP)
    index = tl.program_id(1)
    num_columns = (sizes.value_dim + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    head, part = tl.program_id(0) // num_columns, tl.program_id(0) % num_columns
    own = sequence_at(slots, bounds, opened, num_settled, index)
    if (own.slot < 0) | (own.length <= 0):
        return
    row_dim = tl.arange(0, BLOCK_KEY)
    column = part * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    is_column = (column < sizes.value_dim)[None, :]
    matrix = load_matrix(state, own, head, row_dim, column, sizes)
    end = load_end(state, settled, own, index, head, sizes)
    matrix = settle_many(matrix, state, settled, own, end, index, head, row_dim, column, sizes)
    num_final = tl.maximum(own.length - NUM_OPEN, 0)
    write = own.slot * sizes.places + own.opened
    num = tl.cdiv(own.length, TILE)
    for tile in range(num):
        token = own.length - (num - tile) * TILE + tl.arange(0, TILE)
        matrix, result, change, decays = _run_tile(
            matrix, heads, tiles, own, token, num_final, head, row_dim, column, sizes, TILE
        )
        sink = ((own.start + token) * sizes.heads + head) * sizes.value_dim
        sink = output + sink[:, None] + column[None, :]
        tl.store(sink, result, mask=(token >= 0)[:, None] & is_column)
        is_open = (token >= num_final) & (token >= 0)
        row = (write + token - num_final) * sizes.heads + head
        sink = state.open_changes + (row * sizes.value_dim)[:, None] + column[None, :]
        tl.store(sink, change, mask=is_open[:, None] & is_column)
        tl.store(state.open_decays + row, decays, mask=is_open & (part == 0))
    mask = (row_dim < sizes.key_dim)[:, None] & is_column
    tl.store(matrix_at(state, own, head, row_dim, column, sizes), matrix, mask=mask)


def run_prompts(heads: DeltaHeads, state: DeltaState, own: DeltaPass, output: Tensor) -> None:
    """The delta rule of a pass of any length."""
    sizes = sizes_of(heads, state, own)
    tiles = _launch_tiles(heads, own, sizes, output)
    num_heads, value_dim = heads.value.shape[1:]
    columns = max(16, min(_NUM_COLUMNS, triton.next_power_of_2(value_dim)))
    is_wide = heads.key.dtype == torch.float32
    _scan_kernel[(num_heads * triton.cdiv(value_dim, columns), len(own.slots))](
        heads,
        tiles,
        state,
        output,
        own.slots,
        own.bounds,
        own.opened,
        *own.settled,
        sizes,
        NUM_OPEN=own.num_open,
        TILE=_TILE,
        BLOCK_KEY=_block(heads.key.shape[2]),
        BLOCK_COLUMNS=columns,
        num_warps=_SCAN_WARPS,
        num_stages=1 if is_wide else _SCAN_STAGES,
        **overlap(heads.device),
    )


def _launch_tiles(heads: DeltaHeads, own: DeltaPass, sizes: Sizes, output: Tensor) -> _Tiles:
    num_tokens, num_heads, value_dim = heads.value.shape
    dtype, device = heads.key.dtype, heads.device
    inverses, scores = (
        torch.empty(num_tokens, num_heads, _TILE, dtype=dtype, device=device) for _ in range(2)
    )
    tiles = _Tiles(inverses, scores, torch.empty_like(heads.decay))
    _tiles_kernel[(num_tiles(own, num_tokens, _TILE), num_heads)](
        heads,
        tiles,
        output,
        own.slots,
        own.bounds,
        own.opened,
        own.settled.num,
        num_tokens,
        len(own.slots),
        sizes,
        TILE=_TILE,
        BLOCK_KEY=_block(heads.key.shape[2]),
        BLOCK_VALUE=triton.next_power_of_2(value_dim),
        BLOCK_SEQUENCES=block_sequences(own),
        num_warps=_TILE_WARPS,
        **overlap(device),
    )
    return tiles


def _block(dim: int) -> int:
    """The rows of a product that has them in powers of 2, and 16 at least."""
    return max(16, triton.next_power_of_2(dim))
