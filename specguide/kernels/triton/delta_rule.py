"""Owns the Triton implementation of the gated delta rule: its kernel for passes of which all tokens
stay open, and the choice between that and the kernels of prompts."""

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
    check_contiguous,
    sequence_at,
    store_zeros,
)
from specguide.kernels.triton.delta_prompts import MOST_OPEN, run_prompts
from specguide.kernels.triton.delta_rule_kernels import (
    matrix_at,
    settled_matrix,
    sizes_of,
    solved,
    unit_inverse,
)
from specguide.kernels.triton.device import await_results, overlap

_FEW = 4
"""Up to so many tokens are multiplied without tensor cores, and settled without a loop."""

_NUM_COLUMNS, _NUM_WARPS = 32, 4
"""Columns of a matrix that one program holds, and its warps."""


class _Paths(NamedTuple):
    """Of a sequence's nodes: which ones are on the path to each, the decays along these paths, and
    the shares of values that are written."""

    on_path: Any
    decays: Any
    strength: Any


@triton.jit
def _paths_of(heads, ancestors, own, index, head, sizes, BLOCK: tl.constexpr):
    """The paths of a sequence's nodes, [BLOCK, BLOCK] and [BLOCK]."""
    node = tl.arange(0, BLOCK)
    exists = node < own.length
    row = (own.start + node) * sizes.heads + head
    decay = tl.load(heads.decay + row, mask=exists, other=0)
    strength = tl.load(heads.strength + row, mask=exists, other=0)
    if ancestors is None:
        on_path = node[:, None] >= node[None, :]
    else:
        row = index * sizes.ancestors_stride + node * sizes.ancestors_row
        mask = exists[:, None] & exists[None, :]
        on_path = tl.load(ancestors + row[:, None] + node[None, :], mask=mask, other=0) != 0
    return _Paths(on_path, tl.sum(tl.where(on_path, decay[None, :], 0.0), 1), strength)


@triton.jit
def _products(rows, others, FEW: tl.constexpr):
    """Products of some rows with others, float32."""
    if FEW:
        wide = rows.to(tl.float32)[:, None, :] * others.to(tl.float32)[None, :, :]
        result = tl.sum(wide, 2)
    else:
        result = tl.dot(rows, tl.trans(others), input_precision="tf32x3")
    return result


@triton.jit
def _times_matrix(
    rows, source, num, row_stride, matrix, row_dim, sizes, FEW: tl.constexpr, BLOCK: tl.constexpr
):
    """Some rows times a matrix, float32. source: pointer to the first of `num` rows"""
    if FEW:
        node = tl.arange(0, BLOCK)[:, None]
        result = tl.zeros((BLOCK, matrix.shape[1]), tl.float32)
        for step in tl.static_range(BLOCK):
            mask = (row_dim < sizes.key_dim) & (step < num)
            row = tl.load(source + step * row_stride + row_dim, mask=mask, other=0)
            product = tl.sum(row.to(tl.float32)[:, None] * matrix, 0)
            result += tl.where(node == step, product[None, :], 0.0)
    elif rows.dtype == tl.float32:
        result = tl.dot(rows, matrix, input_precision="tf32x3")
    else:
        result = tl.dot(rows.to(tl.float32), matrix, input_precision="tf32")
    return result


@triton.jit
def _changes(lower, wanted, BLOCK: tl.constexpr):
    """The changes of nodes, which depend on those of the nodes before."""
    if BLOCK > 16:
        change = tl.dot(unit_inverse(lower, BLOCK), wanted, input_precision="tf32x3")
    else:
        change = solved(lower, wanted, BLOCK)
    return change


@triton.jit
def _run_nodes(
    heads,
    matrix,
    paths,
    own,
    head,
    row_dim,
    column,
    sizes,
    FEW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Some columns of the outputs and changes of a sequence's nodes."""
    node = tl.arange(0, BLOCK)
    exists = node < own.length
    group = head // (sizes.heads // sizes.groups)
    stride = sizes.groups * sizes.key_dim
    first = own.start * stride + group * sizes.key_dim
    key_row, query_row = heads.key + first, heads.query + first
    at = node[:, None] * stride + row_dim[None, :]
    mask = exists[:, None] & (row_dim < sizes.key_dim)[None, :]
    key = tl.load(key_row + at, mask=mask, other=0)
    query = tl.load(query_row + at, mask=mask, other=0)
    at = ((own.start + node) * sizes.heads + head) * sizes.value_dim
    mask = exists[:, None] & (column < sizes.value_dim)[None, :]
    value = tl.load(heads.value + at[:, None] + column[None, :], mask=mask, other=0)
    between = tl.minimum(paths.decays[:, None] - paths.decays[None, :], 0.0)
    factors = tl.where(paths.on_path, tl.exp(between), 0.0)
    start, strength = tl.exp(paths.decays)[:, None], paths.strength[:, None]
    stored = _times_matrix(key, key_row, own.length, stride, matrix, row_dim, sizes, FEW, BLOCK)
    lower = strength * factors * _products(key, key, FEW)
    lower = tl.where(node[:, None] > node[None, :], lower, 0.0)
    change = _changes(lower, strength * (value.to(tl.float32) - start * stored), BLOCK)
    weights = factors * _products(query, key, FEW)
    result = start * _times_matrix(
        query, query_row, own.length, stride, matrix, row_dim, sizes, FEW, BLOCK
    )
    if FEW:
        result += tl.sum(weights[:, :, None] * change[None, :, :], 1)
    else:
        result += tl.dot(weights, change, input_precision="tf32x3")
    return result, change


@triton.jit
def _store_nodes(
    result, change, paths, state, output, own, head, tile, column, sizes, BLOCK: tl.constexpr
):
    """Store some columns of the outputs and changes of a sequence's nodes; the first program of a
    head also stores the decays."""
    node = tl.arange(0, BLOCK)
    mask = (node < own.length)[:, None] & (column < sizes.value_dim)[None, :]
    row = ((own.start + node) * sizes.heads + head) * sizes.value_dim
    tl.store(output + row[:, None] + column[None, :], result, mask=mask)
    write = ((1 - own.turn) * sizes.slots + own.slot) * sizes.places + node
    row = (write * sizes.heads + head) * sizes.value_dim
    tl.store(state.open_changes + row[:, None] + column[None, :], change, mask=mask)
    decays = state.open_decays + write * sizes.heads + head
    tl.store(decays, paths.decays, mask=(node < own.length) & (tile == 0))


@triton.jit(
    do_not_specialize=["num_tokens", "num_sequences"],
    do_not_specialize_on_alignment=UNALIGNED,
)
def _nodes_kernel(
    heads,
    state,
    output,
    slots,
    bounds,
    turns,
    num_settled,
    settled,
    ancestors,
    num_tokens,
    num_sequences,
    sizes,
    BLOCK_NODES: tl.constexpr,
    BLOCK_KEY: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    SETTLES_FEW: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some columns of one head's matrix of one sequence, and of its nodes' outputs."""
    await_results(OVERLAP)
    index = tl.program_id(1)
    num_tiles = (sizes.value_dim + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    head, tile = tl.program_id(0) // num_tiles, tl.program_id(0) % num_tiles
    row_dim = tl.arange(0, BLOCK_KEY)
    column = tile * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    own = sequence_at(slots, bounds, turns, num_settled, index)
    if index == num_sequences - 1:
        store_zeros(
            output,
            own.start + own.length,
            num_tokens,
            BLOCK_NODES,
            head,
            column,
            sizes,
            BLOCK_NODES,
        )
    if (own.slot < 0) | (own.length <= 0):
        store_zeros(
            output, own.start, own.start + own.length, BLOCK_NODES, head, column, sizes, BLOCK_NODES
        )
        return
    matrix = settled_matrix(state, settled, own, index, head, row_dim, column, sizes, SETTLES_FEW)
    if own.num_settled != 0:
        mask = (row_dim < sizes.key_dim)[:, None] & (column < sizes.value_dim)[None, :]
        tl.store(matrix_at(state, own, head, row_dim, column, sizes), matrix, mask=mask)
    paths = _paths_of(heads, ancestors, own, index, head, sizes, BLOCK_NODES)
    result, change = _run_nodes(
        heads, matrix, paths, own, head, row_dim, column, sizes, FEW, BLOCK_NODES
    )
    _store_nodes(result, change, paths, state, output, own, head, tile, column, sizes, BLOCK_NODES)


def delta_rule(heads: DeltaHeads, state: DeltaState, own: DeltaPass) -> Tensor:
    """See delta_rule.delta_rule."""
    if own.num_open > MOST_OPEN:
        raise ValueError(
            f"The delta rule's kernels keep at most {MOST_OPEN} tokens open, not {own.num_open}."
        )
    check_contiguous(**(heads._asdict() | state._asdict()))
    output = torch.empty_like(heads.value)
    if own.ancestors is None and own.max_len > own.num_open:
        run_prompts(heads, state, own, output)
    else:
        _launch_nodes(heads, state, own, output)
    return output


def _launch_nodes(heads: DeltaHeads, state: DeltaState, own: DeltaPass, output: Tensor) -> None:
    num_tokens, num_heads, value_dim = heads.value.shape
    key_dim = heads.key.shape[2]
    few, settles_few = own.max_len <= _FEW, own.settled.shape[1] <= _FEW
    block = triton.next_power_of_2(own.max_len)
    columns = max(16, min(_NUM_COLUMNS, triton.next_power_of_2(value_dim)))
    _nodes_kernel[(num_heads * triton.cdiv(value_dim, columns), len(own.slots))](
        heads,
        state,
        output,
        own.slots,
        own.bounds,
        own.turns,
        own.num_settled,
        own.settled,
        None if own.ancestors is None else own.ancestors.view(torch.uint8),
        num_tokens,
        len(own.slots),
        sizes_of(heads, state, own),
        BLOCK_NODES=block if few else max(16, block),
        BLOCK_KEY=max(16, triton.next_power_of_2(key_dim)),
        BLOCK_COLUMNS=columns,
        FEW=few,
        SETTLES_FEW=settles_few,
        num_warps=_NUM_WARPS,
        **overlap(heads.device),
    )
