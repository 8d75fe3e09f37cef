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
    appended,
    load_end,
    load_few,
    load_matrix,
    matrix_at,
    settle_few,
    settle_many,
    sizes_of,
    solved,
    unit_inverse,
)
from specguide.kernels.triton.device import await_results, overlap

_FEW, _FEW_SETTLED = 4, 4
"""Up to so many tokens are multiplied without tensor cores, and settled without a loop."""

_MOST_NODES = 128
"""Nodes that one program can hold."""

_NUM_COLUMNS, _NUM_WARPS = 32, 4
"""Columns of a matrix that one program holds, and its warps."""

_FEW_COLUMNS, _FEW_WARPS = 32, 1
"""The same where no tensor cores are used: sums within one warp take no barriers."""

_SPARSE_COLUMNS = 16
"""Columns where there are few sequences for their nodes: more programs wait for memory at once."""


class _Nodes(NamedTuple):
    """A sequence's nodes: keys, queries and some columns of values of one head, and how they decay
    and are written; which nodes are on the path to each one; and if they are few, keys and queries
    one by one, too."""

    key: Any
    query: Any
    value: Any
    decay: Any
    strength: Any
    on_path: Any
    keys: Any
    queries: Any


class _System(NamedTuple):
    """What does not depend on the matrix: the triangular system of the changes, the weights of the
    changes in each output, and the decays along the path to each node."""

    lower: Any
    weights: Any
    decays: Any


@triton.jit
def _load_nodes(
    heads,
    ancestors,
    own,
    index,
    head,
    row_dim,
    column,
    sizes,
    FEW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The nodes of a sequence, [BLOCK, dimensions] and [BLOCK]."""
    node = tl.arange(0, BLOCK)
    exists = node < own.length
    group = head // (sizes.heads // sizes.groups)
    at = ((own.start + node) * sizes.groups + group) * sizes.key_dim
    at = at[:, None] + row_dim[None, :]
    mask = exists[:, None] & (row_dim < sizes.key_dim)[None, :]
    key = tl.load(heads.key + at, mask=mask, other=0)
    query = tl.load(heads.query + at, mask=mask, other=0)
    row = (own.start + node) * sizes.heads + head
    at = (row * sizes.value_dim)[:, None] + column[None, :]
    mask = exists[:, None] & (column < sizes.value_dim)[None, :]
    value = tl.load(heads.value + at, mask=mask, other=0)
    decay = tl.load(heads.decay + row, mask=exists, other=0)
    strength = tl.load(heads.strength + row, mask=exists, other=0)
    if ancestors is None:
        on_path = node[:, None] >= node[None, :]
    else:
        at = index * sizes.ancestors_stride + (node * sizes.ancestors_row)[:, None] + node[None, :]
        mask = exists[:, None] & exists[None, :]
        on_path = tl.load(ancestors + at, mask=mask, other=0) != 0
    keys, queries = (), ()
    if FEW:
        for step in tl.static_range(BLOCK):
            row = ((own.start + step) * sizes.groups + group) * sizes.key_dim + row_dim
            mask = (row_dim < sizes.key_dim) & (step < own.length)
            keys = appended(keys, tl.load(heads.key + row, mask=mask, other=0))
            queries = appended(queries, tl.load(heads.query + row, mask=mask, other=0))
    return _Nodes(key, query, value, decay, strength, on_path, keys, queries)


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
def _times_matrix(rows, apart, matrix, FEW: tl.constexpr, BLOCK: tl.constexpr):
    """Some rows times a matrix, float32. apart: the rows one by one, if they are few"""
    if FEW:
        node = tl.arange(0, BLOCK)[:, None]
        result = tl.zeros((BLOCK, matrix.shape[1]), tl.float32)
        for step in tl.static_range(BLOCK):
            product = tl.sum(apart[step].to(tl.float32)[:, None] * matrix, 0)
            result += tl.where(node == step, product[None, :], 0.0)
    elif rows.dtype == tl.float32:
        result = tl.dot(rows, matrix, input_precision="tf32x3")
    else:
        result = tl.dot(rows.to(tl.float32), matrix, input_precision="tf32")
    return result


@triton.jit
def _changes(lower, wanted, BLOCK: tl.constexpr):
    """The changes of nodes, which depend on those of the nodes before."""
    if BLOCK == 32 or BLOCK == 64:
        change = tl.dot(unit_inverse(lower, BLOCK), wanted, input_precision="tf32x3")
    else:
        change = solved(lower, wanted, BLOCK)
    return change


@triton.jit
def _system_of(nodes, FEW: tl.constexpr, BLOCK: tl.constexpr):
    """What does not depend on the matrix."""
    node = tl.arange(0, BLOCK)
    decays = tl.sum(tl.where(nodes.on_path, nodes.decay[None, :], 0.0), 1)
    between = tl.minimum(decays[:, None] - decays[None, :], 0.0)
    factors = tl.where(nodes.on_path, tl.exp(between), 0.0)
    lower = nodes.strength[:, None] * factors * _products(nodes.key, nodes.key, FEW)
    lower = tl.where(node[:, None] > node[None, :], lower, 0.0)
    return _System(lower, factors * _products(nodes.query, nodes.key, FEW), decays)


@triton.jit
def _run_nodes(nodes, system, matrix, FEW: tl.constexpr, BLOCK: tl.constexpr):
    """Some columns of the outputs and changes of a sequence's nodes."""
    start = tl.exp(system.decays)[:, None]
    stored = start * _times_matrix(nodes.key, nodes.keys, matrix, FEW, BLOCK)
    result = start * _times_matrix(nodes.query, nodes.queries, matrix, FEW, BLOCK)
    wanted = nodes.strength[:, None] * (nodes.value.to(tl.float32) - stored)
    change = _changes(system.lower, wanted, BLOCK)
    if FEW:
        result += tl.sum(system.weights[:, :, None] * change[None, :, :], 1)
    else:
        result += tl.dot(system.weights, change, input_precision="tf32x3")
    return result, change


@triton.jit
def _store_nodes(
    result, change, decays, state, output, own, head, tile, column, sizes, BLOCK: tl.constexpr
):
    """Store some columns of the outputs and changes of a sequence's nodes; the first program of a
    head also stores the decays."""
    node = tl.arange(0, BLOCK)
    mask = (node < own.length)[:, None] & (column < sizes.value_dim)[None, :]
    row = ((own.start + node) * sizes.heads + head) * sizes.value_dim
    tl.store(output + row[:, None] + column[None, :], result, mask=mask)
    write = own.slot * sizes.places + own.opened + node
    row = (write * sizes.heads + head) * sizes.value_dim
    tl.store(state.open_changes + row[:, None] + column[None, :], change, mask=mask)
    sink = state.open_decays + write * sizes.heads + head
    tl.store(sink, decays, mask=(node < own.length) & (tile == 0))


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
    opened,
    num_settled,
    settled,
    stores,
    ancestors,
    num_tokens,
    num_sequences,
    sizes,
    BLOCK: tl.constexpr,
    BLOCK_KEY: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    SETTLES_FEW: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some columns of one head's matrix of one sequence, and of its nodes' outputs. What can be
    loaded at once is loaded first."""
    await_results(OVERLAP)
    index = tl.program_id(1)
    num_tiles = (sizes.value_dim + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    head, tile = tl.program_id(0) // num_tiles, tl.program_id(0) % num_tiles
    row_dim = tl.arange(0, BLOCK_KEY)
    column = tile * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    own = sequence_at(slots, bounds, opened, num_settled, index)
    behind = own.start + own.length
    if index == num_sequences - 1:
        store_zeros(output, behind, num_tokens, BLOCK, head, column, sizes, BLOCK)
    if (own.slot < 0) | (own.length <= 0):
        store_zeros(output, own.start, behind, BLOCK, head, column, sizes, BLOCK)
        return
    matrix = load_matrix(state, own, head, row_dim, column, sizes)
    end = load_end(state, settled, own, index, head, sizes)
    is_stored = tl.load(stores + index) != 0
    nodes = _load_nodes(heads, ancestors, own, index, head, row_dim, column, sizes, FEW, BLOCK)
    if SETTLES_FEW:
        few = load_few(state, settled, own, index, head, row_dim, column, sizes)
    system = _system_of(nodes, FEW, BLOCK)
    if SETTLES_FEW:
        matrix = settle_few(matrix, few, end, sizes)
    else:
        matrix = settle_many(matrix, state, settled, own, end, index, head, row_dim, column, sizes)
    if is_stored & (own.num_before != 0):
        mask = (row_dim < sizes.key_dim)[:, None] & (column < sizes.value_dim)[None, :]
        tl.store(matrix_at(state, own, head, row_dim, column, sizes), matrix, mask=mask)
    result, change = _run_nodes(nodes, system, matrix, FEW, BLOCK)
    decays = system.decays + tl.where(is_stored, 0.0, end)
    _store_nodes(result, change, decays, state, output, own, head, tile, column, sizes, BLOCK)


def delta_rule(heads: DeltaHeads, state: DeltaState, own: DeltaPass) -> Tensor:
    """See delta_rule.delta_rule."""
    is_prompt = own.ancestors is None and own.max_len > own.num_open
    most = MOST_OPEN if is_prompt else _MOST_NODES
    if own.num_open > most:
        raise ValueError(
            f"Linear attention verifies at most {most} nodes a sequence"
            f"{' beside prompts' if is_prompt else ''}, not {own.num_open}: draft fewer tokens."
        )
    check_contiguous(**(heads._asdict() | state._asdict()))
    output = torch.empty_like(heads.value)
    if is_prompt:
        run_prompts(heads, state, own, output)
    else:
        _launch_nodes(heads, state, own, output)
    return output


def _launch_nodes(heads: DeltaHeads, state: DeltaState, own: DeltaPass, output: Tensor) -> None:
    num_tokens, num_heads, value_dim = heads.value.shape
    key_dim = heads.key.shape[2]
    few, settles_few = own.max_len <= _FEW, own.settled.places.shape[1] <= _FEW_SETTLED
    most, num_warps = _NUM_COLUMNS, _NUM_WARPS
    if few and settles_few:
        is_sparse = len(own.slots) < 8 * own.max_len
        most, num_warps = _SPARSE_COLUMNS if is_sparse else _FEW_COLUMNS, _FEW_WARPS
    block = triton.next_power_of_2(own.max_len)
    columns = max(16, min(most, triton.next_power_of_2(value_dim)))
    _nodes_kernel[(num_heads * triton.cdiv(value_dim, columns), len(own.slots))](
        heads,
        state,
        output,
        own.slots,
        own.bounds,
        own.opened,
        *own.settled,
        own.stores.view(torch.uint8),
        None if own.ancestors is None else own.ancestors.view(torch.uint8),
        num_tokens,
        len(own.slots),
        sizes_of(heads, state, own),
        BLOCK=block if few else max(16, block),
        BLOCK_KEY=max(16, triton.next_power_of_2(key_dim)),
        BLOCK_COLUMNS=columns,
        FEW=few,
        SETTLES_FEW=settles_few,
        num_warps=num_warps if block <= 64 else 8,
        **overlap(heads.device),
    )
