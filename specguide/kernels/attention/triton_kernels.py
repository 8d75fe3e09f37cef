"""Owns the Triton kernels of paged attention.

A program takes a tile of rows: the query heads that share a key head, times some tokens of a
sequence. So each key is read once for all of these rows. If there are too few tiles to keep the
device busy, the keys of a sequence are split over programs, and a second kernel combines the parts;
see triton_combine.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.attention.triton_pairs import join_pairs, numbers_of, split_pairs
from specguide.kernels.attention.triton_rows import (
    find_tile,
    key_range,
    load_rows,
    load_sequence,
    seen_by_all,
    visible_keys,
)
from specguide.kernels.triton.device import await_leader, await_results


class Queries(NamedTuple):
    """A pointer to the query heads of all tokens, and the strides between tokens and between
    heads."""

    query: Any
    stride: Any
    head_stride: Any


class Cache(NamedTuple):
    """Pointers to the paged cache and to the page ids of all sequences. value_scale: factor on the
    values"""

    key_cache: Any
    value_cache: Any
    block_table: Any
    block_table_stride: Any
    value_scale: Any


class _Pages(NamedTuple):
    """Pointers to the paged cache and to the sequence's first page id."""

    key_cache: Any
    value_cache: Any
    pages: Any
    kv_head: Any
    value_scale: Any


class _Cells(NamedTuple):
    """The cells of a key and of a value: numbers, or pairs of them.

    value: places of a value's cells, and of as many of the key's
    rest:  places of a key's other cells; None: there are none
    """

    value: Any
    rest: Any
    NUM_KEY: Any
    NUM_VALUE: Any
    NUM_KV_HEADS: Any


class _Span(NamedTuple):
    """The keys begin … end - 1 that a program reads, the factor on their scores, the limit of the
    scores and the window (None: there is none). masked: the first key that some row may not see;
    keys before it need no mask."""

    begin: Any
    masked: Any
    end: Any
    scale: Any
    softcap: Any
    window: Any


@triton.jit
def _load_queries(queries, rows, dim, END: tl.constexpr):
    """Dimensions of the query heads of the tile's rows, [rows, dim]; 0 where there is no row, and
    from END on."""
    source = rows.query_id.to(tl.int64) * queries.stride + rows.head * queries.head_stride
    return tl.load(
        queries.query + source[:, None] + dim[None, :],
        mask=rows.exists[:, None] & (dim < END)[None, :],
        other=0,
    )


@triton.jit
def _load_cells(pointer, first, exists, cell, END: tl.constexpr):
    """Cells of keys or of values, [keys, cells], 0 where there is none, and from END on.

    Behind the end are values of earlier requests, perhaps NaN: even with a weight of zero a NaN
    would spoil the sum.
    """
    is_value = exists[:, None] & (cell < END)[None, :]
    return tl.load(pointer + first[:, None] + cell[None, :], mask=is_value, other=0)


@triton.jit
def _start(sinks, rows, split, ROWS: tl.constexpr):
    """Each row's greatest score and sum of exponentials before any key; the first split includes
    the sinks, if there are any."""
    best = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.full((ROWS,), 0, tl.float32)
    if sinks is not None:
        sink = tl.load(sinks + rows.head, mask=rows.exists, other=0).to(tl.float32)
        sink = sink * 1.4426950408889634  # to base 2
        best = tl.where(split == 0, sink, best)
        total = tl.where(split == 0, 1.0, total)
    return best, total


@triton.jit
def _scores_and_values(
    queries, cache, key_id, exists, cells, PAGE_SIZE: tl.constexpr, UNPACK: tl.constexpr
):
    """Scores of the rows for some keys, float32 [rows, keys], and the keys' values [keys, cells],
    not scaled yet."""
    page = tl.load(cache.pages + key_id // PAGE_SIZE, mask=exists, other=0)
    slot = tl.maximum(page, 0).to(tl.int64) * PAGE_SIZE + key_id % PAGE_SIZE
    first = (slot * cells.NUM_KV_HEADS + cache.kv_head) * cells.NUM_KEY
    keys = _load_cells(cache.key_cache, first, exists, cells.value, cells.NUM_VALUE)
    values = keys
    if cells.rest is None:
        values = _load_cells(cache.value_cache, first, exists, cells.value, cells.NUM_VALUE)
    tiles = numbers_of(keys, queries[0].dtype, UNPACK)
    scores = tl.dot(queries[0], tl.trans(tiles[0]), input_precision="ieee")
    if keys.dtype == tl.int16:
        scores = tl.dot(queries[1], tl.trans(tiles[1]), scores, input_precision="ieee")
    if cells.rest is not None:
        rest = _load_cells(cache.key_cache, first, exists, cells.rest, cells.NUM_KEY)
        rest = tl.trans(rest.to(queries[1].dtype))
        scores = tl.dot(queries[1], rest, scores, input_precision="ieee")
    return scores, values


@triton.jit
def _decayed_and(sums, decay, weights, values):
    return sums * decay[:, None] + tl.dot(weights, values, input_precision="ieee")


@triton.jit
def _weighted(mixed, decay, weights, values, UNPACK: tl.constexpr):
    """The sums so far, times `decay`, plus the weighted values."""
    tiles = numbers_of(values, weights.dtype, UNPACK)
    first = _decayed_and(mixed[0], decay, weights, tiles[0])
    PAIRED: tl.constexpr = values.dtype == tl.int16
    return (first, _decayed_and(mixed[1], decay, weights, tiles[1])) if PAIRED else (first,)


@triton.jit
def _online_softmax(scores, values, best, total, mixed, DTYPE: tl.constexpr, UNPACK: tl.constexpr):
    """Each row's greatest score, sum of exponentials and weighted sum of values, after some more
    keys."""
    higher = tl.maximum(best, tl.max(scores, 1))
    shift = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp2(scores - shift[:, None])
    decay = tl.exp2(best - shift)
    total = total * decay + tl.sum(weights, 1)
    return higher, total, _weighted(mixed, decay, weights.to(DTYPE), values, UNPACK)


@triton.jit
def _scaled(scores, span):
    """Scores in base 2: scores times a factor, then limited, if there is a limit c · log₂ e. In
    that case the factor is 2 · log₂ e / c times the scale, since tanh(x) = 1 - 2 / (1 + e^2x)."""
    scores *= span.scale
    if span.softcap is not None:
        scores = span.softcap * (1.0 - 2.0 / (1.0 + tl.exp2(scores)))
    return scores


@triton.jit
def _attend(
    queries,
    rows,
    cache,
    tree,
    seq,
    start,
    span,
    cells,
    PAGE_SIZE: tl.constexpr,
    KEYS: tl.constexpr,
    HAS_SEEN: tl.constexpr,
    UNPACK: tl.constexpr,
):
    """Each row's greatest score, sum of exponentials and attention over a span of keys. start: the
    first two before the span. HAS_SEEN: the span has keys that need no mask"""
    best, total = start
    DTYPE: tl.constexpr = queries[0].dtype
    PAIRED: tl.constexpr = cache.key_cache.dtype.element_ty == tl.int16
    nothing = tl.full(queries[0].shape, 0, tl.float32)
    mixed = (nothing, nothing) if PAIRED else (nothing,)
    if HAS_SEEN:
        for first in range(span.begin, span.masked, KEYS):
            key_id = first + tl.arange(0, KEYS)
            scores, values = _scores_and_values(
                queries, cache, key_id, key_id >= 0, cells, PAGE_SIZE, UNPACK
            )
            scores = _scaled(scores, span)
            best, total, mixed = _online_softmax(scores, values, best, total, mixed, DTYPE, UNPACK)
    for first in range(span.masked, span.end, KEYS):
        key_id = first + tl.arange(0, KEYS)
        exists = key_id < span.end
        scores, values = _scores_and_values(
            queries, cache, key_id, exists, cells, PAGE_SIZE, UNPACK
        )
        scores = _scaled(scores, span)
        visible = visible_keys(tree, seq, rows, key_id, exists, span.window)
        scores = tl.where(visible, scores, float("-inf"))
        best, total, mixed = _online_softmax(scores, values, best, total, mixed, DTYPE, UNPACK)
    sums = join_pairs(mixed, PAIRED)
    sums = sums / tl.where(total == 0, 1.0, total)[:, None]
    return best, total, sums * cache.value_scale


@triton.jit
def _store_rows(parts, found, row_id, is_row, dim, VALUE_DIM: tl.constexpr):
    """Store each row's attention, as `_attend` found it; for a split also the logarithm of the
    row's sum of exponentials."""
    best, total, mixed = found
    if parts.log_sums is not None:
        tl.store(parts.log_sums + row_id, best + tl.log2(total), mask=is_row)
        is_row = is_row & (total != 0)
    tl.store(
        parts.output + row_id[:, None] * VALUE_DIM + dim[None, :],
        mixed,
        mask=is_row[:, None] & (dim < VALUE_DIM)[None, :],
    )


@triton.jit(do_not_specialize=["num_seqs", "num_blocks", "num_splits", "num_tree_keys"])
def attention_kernel(
    queries,
    cache,
    sequences,
    tree,
    sinks,
    parts,
    scale,
    softcap,
    num_seqs,
    num_blocks,
    num_splits,
    num_tree_keys,
    window,
    NUM_KV_HEADS: tl.constexpr,
    NUM_GROUPS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK_REST: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    MOST_SEQS: tl.constexpr,
    HAS_SEEN: tl.constexpr,
    UNPACK: tl.constexpr,
    ORDER: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attention of one tile of rows over its split of the keys. `scale` includes the scale of the
    keys and log₂ e, since exponents are to base 2; with a limit, `softcap`, see `_scaled`. `tree`,
    `softcap` and `window` are None if there is none.
    A tile takes GROUP heads, and NUM_GROUPS such groups share a key head. With BLOCK_REST values
    are the first VALUE_DIM dimensions of keys."""
    await_results(OVERLAP, ORDER)
    group, split = tl.program_id(0), tl.program_id(2)
    index, block = find_tile(sequences, num_seqs, num_blocks, ROWS // GROUP, MOST_SEQS)
    seq = load_sequence(sequences, tree, tl.minimum(index, num_seqs - 1), num_tree_keys)
    if (index < num_seqs) & (block * (ROWS // GROUP) < seq.query_len):
        PAIRED: tl.constexpr = cache.key_cache.dtype.element_ty == tl.int16
        EACH: tl.constexpr = 2 if PAIRED else 1
        dim, rest = tl.arange(0, BLOCK_DIM), None
        rows = load_rows(sequences.position_ids, seq, block, group, GROUP, ROWS)
        own = _load_queries(queries, rows, dim, VALUE_DIM)
        if PAIRED and own.dtype == tl.bfloat16:
            own = own.to(tl.float16)
        tiles = split_pairs(own, PAIRED)
        if BLOCK_REST:
            rest = VALUE_DIM + tl.arange(0, BLOCK_REST)
            tiles = own, _load_queries(queries, rows, rest, HEAD_DIM)
        cell = tl.arange(0, BLOCK_DIM // EACH)
        cells = _Cells(cell, rest, HEAD_DIM // EACH, VALUE_DIM // EACH, NUM_KV_HEADS)
        IS_SPLIT: tl.constexpr = parts.log_sums is not None
        begin, end = key_range(
            tree, seq, rows, block, split, num_splits, window, IS_SPLIT, ROWS // GROUP, KEYS
        )
        masked = begin
        if HAS_SEEN:
            masked = seen_by_all(seq, block, begin, end, ROWS // GROUP, KEYS)
        span = _Span(begin, masked, end, scale, softcap, window)
        start = _start(sinks, rows, split, ROWS)
        page = cache.block_table + index * cache.block_table_stride
        kv_head = group // NUM_GROUPS
        pages = _Pages(cache.key_cache, cache.value_cache, page, kv_head, cache.value_scale)
        found = _attend(
            *(tiles, rows, pages, tree, seq, start, span, cells),
            *(PAGE_SIZE, KEYS, HAS_SEEN, UNPACK),
        )
        num_heads = NUM_KV_HEADS * NUM_GROUPS * GROUP
        row_id = (rows.query_id.to(tl.int64) * num_heads + rows.head) * num_splits
        _store_rows(parts, found, row_id + split, rows.exists, dim, VALUE_DIM)
    await_leader(OVERLAP, ORDER)
