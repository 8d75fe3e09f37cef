"""Owns what the kernels of the delta rule share: settling open tokens, and triangular systems."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.delta_rule import DeltaHeads, DeltaPass, DeltaState

_BLOCK = tl.constexpr(16)
"""Rows of the blocks on the diagonal that are inverted step by step; no product has fewer."""


class Sizes(NamedTuple):
    """Constants: key heads, value heads, dimensions, places of open tokens; of those of tokens to
    settle, how many a sequence may have, and the stride between sequences; and the strides of
    `ancestors` between sequences and tokens."""

    groups: Any
    heads: Any
    key_dim: Any
    value_dim: Any
    places: Any
    settled: Any
    settled_stride: Any
    ancestors_stride: Any
    ancestors_row: Any


class Settled(NamedTuple):
    """Of a few tokens that are settled: the key, the decay of the path, and some columns of the
    change of each."""

    keys: Any
    decays: Any
    changes: Any


@triton.jit
def appended(rows, row):
    """A tuple with one more element. Triton has no stars in tuples."""
    return rows + (row,)  # noqa: RUF005


@triton.jit
def load_matrix(state, own, head, row_dim, column, sizes):
    """Some columns of a head's matrix, float32; zeros where a sequence begins."""
    exists = (row_dim < sizes.key_dim)[:, None] & (column < sizes.value_dim)[None, :]
    at = matrix_at(state, own, head, row_dim, column, sizes)
    return tl.load(at, mask=exists & (own.num_before >= 0), other=0)


@triton.jit
def load_end(state, settled, own, index, head, sizes):
    """The decay of the whole path of the tokens that are settled now."""
    last = settled + index * sizes.settled_stride + own.num_before - 1
    exists = own.num_before > 0
    row = own.slot * sizes.places + tl.load(last, mask=exists, other=0)
    return tl.load(state.open_decays + row * sizes.heads + head, mask=exists, other=0)


@triton.jit
def load_few(state, settled, own, index, head, row_dim, column, sizes):
    """All tokens that are settled now, if there are only a few; all are loaded at once.

    settled: pointer to the places of the open tokens that are settled, of the first sequence
    """
    group = head // (sizes.heads // sizes.groups)
    places = settled + index * sizes.settled_stride
    row = own.slot * sizes.places
    keys, decays, changes = (), (), ()
    for step in tl.static_range(sizes.settled):
        exists = step < own.num_before
        place = row + tl.load(places + step, mask=exists, other=0)
        key = state.open_keys + (place * sizes.groups + group) * sizes.key_dim + row_dim
        change = state.open_changes + (place * sizes.heads + head) * sizes.value_dim + column
        keys = appended(keys, tl.load(key, mask=exists & (row_dim < sizes.key_dim), other=0))
        changes = appended(
            changes, tl.load(change, mask=exists & (column < sizes.value_dim), other=0)
        )
        decay = state.open_decays + place * sizes.heads + head
        decays = appended(decays, tl.load(decay, mask=exists, other=0))
    return Settled(keys, decays, changes)


@triton.jit
def settle_few(matrix, few, end, sizes):
    """A matrix behind the tokens that `load_few` has loaded. end: see `load_end`"""
    matrix *= tl.exp(end)
    for step in tl.static_range(sizes.settled):
        weight = tl.exp(tl.minimum(end - few.decays[step], 0.0))
        key = few.keys[step].to(tl.float32)
        matrix += key[:, None] * (few.changes[step] * weight)[None, :]
    return matrix


@triton.jit
def settle_many(matrix, state, settled, own, end, index, head, row_dim, column, sizes):
    """A matrix behind the tokens that are settled now, however many there are. end: see
    `load_end`"""
    if own.num_before > 0:
        group = head // (sizes.heads // sizes.groups)
        is_row, is_column = row_dim < sizes.key_dim, column < sizes.value_dim
        places = settled + index * sizes.settled_stride
        row = own.slot * sizes.places
        matrix *= tl.exp(end)
        for first in range(0, own.num_before, _BLOCK):
            step = first + tl.arange(0, _BLOCK)
            exists = step < own.num_before
            place = row + tl.load(places + step, mask=exists, other=0)
            decay = tl.load(state.open_decays + place * sizes.heads + head, mask=exists, other=0)
            key = ((place * sizes.groups + group) * sizes.key_dim)[None, :] + row_dim[:, None]
            mask = is_row[:, None] & exists[None, :]
            key = tl.load(state.open_keys + key, mask=mask, other=0).to(tl.float32)
            change = ((place * sizes.heads + head) * sizes.value_dim)[:, None] + column[None, :]
            mask = exists[:, None] & is_column[None, :]
            change = tl.load(state.open_changes + change, mask=mask, other=0)
            weight = tl.exp(tl.minimum(end - decay, 0.0))
            matrix = tl.dot(key * weight[None, :], change, matrix, input_precision="tf32x3")
    return matrix


@triton.jit
def matrix_at(state, own, head, row_dim, column, sizes):
    """Pointers to some columns of a head's matrix."""
    row = (own.slot * sizes.heads + head) * sizes.key_dim + row_dim
    return state.matrices + row[:, None] * sizes.value_dim + column[None, :]


@triton.jit
def _without_known(lower, wanted, step, BLOCK: tl.constexpr):
    """One step of `solved`: subtract what a known row adds to those behind it."""
    is_known = tl.arange(0, BLOCK) == step
    factor = tl.sum(tl.where(is_known[None, :], lower, 0.0), 1)
    known = tl.sum(tl.where(is_known[:, None], wanted, 0.0), 0)
    return wanted - factor[:, None] * known[None, :]


@triton.jit
def solved(lower, wanted, BLOCK: tl.constexpr):
    """X of (1 + lower) · X = wanted for a lower triangular matrix with zeros on its diagonal, by
    forward substitution."""
    if BLOCK <= 16:
        for step in tl.static_range(BLOCK - 1):
            wanted = _without_known(lower, wanted, step, BLOCK)
    else:
        for step in range(BLOCK - 1):
            wanted = _without_known(lower, wanted, step, BLOCK)
    return wanted


@triton.jit
def _inverse_blocks(lower, NUM: tl.constexpr):
    """The inverses of 1 + each block [NUM, 16, 16], by forward substitution."""
    place = tl.arange(0, _BLOCK)
    is_one = place[:, None] == place[None, :]
    inverse = tl.broadcast_to(is_one[None, :, :].to(tl.float32), (NUM, _BLOCK, _BLOCK))
    for step in range(_BLOCK - 1):
        is_step = place == step
        factor = tl.sum(tl.where(is_step[None, None, :], lower, 0.0), 2)
        known = tl.sum(tl.where(is_step[None, :, None], inverse, 0.0), 1)
        inverse -= factor[:, :, None] * known[:, None, :]
    return inverse


@triton.jit
def _merged(inverse, lower, row, column, HALF: tl.constexpr):
    """Inverses of blocks of HALF rows on the diagonal, merged to those of blocks twice as long."""
    is_inside = (row // (2 * HALF) == column // (2 * HALF)) & (row // HALF != column // HALF)
    between = tl.where(is_inside, lower, 0.0)
    merged = tl.dot(inverse, between, input_precision="tf32x3")
    return inverse - tl.dot(merged, inverse, input_precision="tf32x3")


@triton.jit
def unit_inverse(lower, SIZE: tl.constexpr):
    """The inverse of 1 + lower for a lower triangular matrix [SIZE, SIZE] with zeros on its
    diagonal: of blocks on the diagonal first, which are then merged by products.

    No powers of `lower` are added up: they may be large and cancel each other.
    """
    num: tl.constexpr = SIZE // _BLOCK
    place = tl.arange(0, SIZE)
    row, column = place[:, None], place[None, :]
    on_diagonal = row // _BLOCK == column // _BLOCK
    blocks = tl.reshape(tl.where(on_diagonal, lower, 0.0), (SIZE, num, _BLOCK))
    blocks = tl.reshape(tl.sum(blocks, 1), (num, _BLOCK, _BLOCK))
    blocks = tl.reshape(_inverse_blocks(blocks, num), (SIZE, 1, _BLOCK))
    inverse = tl.reshape(tl.broadcast_to(blocks, (SIZE, num, _BLOCK)), (SIZE, SIZE))
    inverse = tl.where(on_diagonal, inverse, 0.0)
    for level in tl.static_range(3):
        if (_BLOCK << level) < SIZE:
            inverse = _merged(inverse, lower, row, column, _BLOCK << level)
    return inverse


def sizes_of(heads: DeltaHeads, state: DeltaState, own: DeltaPass) -> Sizes:
    _, num_heads, value_dim = heads.value.shape
    _, num_places, groups, key_dim = state.open_keys.shape
    settled = own.settled.places
    sizes = (
        *(groups, num_heads, key_dim, value_dim, num_places),
        *(settled.shape[1], settled.stride(0)),
        *((0, 0) if own.ancestors is None else own.ancestors.stride()[:2]),
    )
    return Sizes(*map(tl.constexpr, sizes))
