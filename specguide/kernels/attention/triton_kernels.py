"""Owns the Triton kernels of paged attention.

A program takes a tile of rows, the query heads that share a key head times some tokens of a
sequence, so that each key is read once for all of them. Where the rows are too few to keep the
device busy, the keys of a sequence are split over programs, and a second kernel puts the parts
together (Dao et al. 2023, "Flash-Decoding").
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.triton.device import await_results


class _Rows(NamedTuple):
    """The rows of a tile, [rows].

    query_id, head: of their queries
    token:          the same query, counted from the sequence's first of this pass
    position:       of their tokens; None without a window
    """

    query_id: Any
    head: Any
    token: Any
    exists: Any
    position: Any


class _LastKeys(NamedTuple):
    """The last keys of a sequence: those of its tokens of this pass, or of its tree.

    ancestor_mask: points to the sequence's mask of a tree, [Q, num]; None where there is none
    positions:     points to where they stand
    earlier:       number of the keys before them
    """

    ancestor_mask: Any
    positions: Any
    num: Any
    earlier: Any


class _Cache(NamedTuple):
    """Pointers to the paged cache and to the sequence's first page id. value_scale: factor on the
    values"""

    key_cache: Any
    value_cache: Any
    pages: Any
    kv_head: Any
    value_scale: Any


@triton.jit
def _tile(query_len, block, kv_head, GROUP: tl.constexpr, ROWS: tl.constexpr):
    """Tokens of a sequence, heads that share a key head, and whether the rows exist."""
    TOKENS: tl.constexpr = ROWS // GROUP
    row = tl.arange(0, ROWS)
    token = block * TOKENS + row // GROUP
    exists = (row < TOKENS * GROUP) & (token < query_len)
    return token, kv_head * GROUP + row % GROUP, exists


@triton.jit
def _load_queries(query, rows, dim, query_stride, query_head_stride, HEAD_DIM: tl.constexpr):
    """Query heads of the tile's rows, [rows, dim], 0 where none is."""
    source = rows.query_id.to(tl.int64) * query_stride + rows.head * query_head_stride
    return tl.load(
        query + source[:, None] + dim[None, :],
        mask=rows.exists[:, None] & (dim < HEAD_DIM)[None, :],
        other=0,
    )


@triton.jit
def _key_range(
    last,
    position,
    seq_len,
    num_own,
    split,
    num_splits,
    window,
    IS_SPLIT: tl.constexpr,
    KEYS: tl.constexpr,
):
    """The first key that a program looks at, and the one behind its last.

    position: of the tile's rows; None without a window
    num_own:  of the last keys, those that any row of the tile sees where there is no tree
    """
    begin, end = 0, seq_len
    if last.ancestor_mask is None:
        end = tl.minimum(seq_len, last.earlier + num_own)
    if position is not None:
        begin = tl.minimum(last.earlier, tl.min(position, 0) - window + 1)
        begin = tl.maximum(0, begin) // KEYS * KEYS
    if IS_SPLIT:
        share = tl.cdiv(tl.cdiv(end - begin, KEYS), num_splits) * KEYS
        begin += split * share
        end = tl.minimum(end, begin + share)
    return begin, end


@triton.jit
def _load_kv(
    cache,
    key_id,
    exists,
    dim,
    dtype: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """Keys and values of `dtype`, each [keys, dim], 0 where none is; not scaled yet."""
    page = tl.load(cache.pages + key_id // PAGE_SIZE, mask=exists, other=0)
    slot = tl.maximum(page, 0).to(tl.int64) * PAGE_SIZE + key_id % PAGE_SIZE
    cell = (slot * NUM_KV_HEADS + cache.kv_head) * HEAD_DIM
    # Beyond the end lies what others left, perhaps NaN, which even a weight of zero would let
    # through.
    is_value = exists[:, None] & (dim < HEAD_DIM)[None, :]
    source = cell[:, None] + dim[None, :]
    keys = tl.load(cache.key_cache + source, mask=is_value, other=0.0)
    values = tl.load(cache.value_cache + source, mask=is_value, other=0.0)
    return keys.to(dtype), values.to(dtype)


@triton.jit
def _visible(last, rows, key_id, exists, window):
    """Which keys a row sees, [rows, keys]: by the tree or by their order, and within the window
    where there is one."""
    own = key_id - last.earlier
    if last.ancestor_mask is None:
        visible = exists[None, :] & (own[None, :] <= rows.token[:, None])
    else:
        is_own = rows.exists[:, None] & (exists & (own >= 0))[None, :]
        seen = last.ancestor_mask + rows.token[:, None] * last.num + own[None, :]
        visible = exists[None, :] & (tl.load(seen, mask=is_own, other=1) != 0)
    if rows.position is not None:
        own_position = tl.load(last.positions + own, mask=exists & (own >= 0), other=0).to(tl.int32)
        key_position = tl.where(own < 0, key_id, own_position)
        visible = visible & (rows.position[:, None] - key_position[None, :] < window)
    return visible


@triton.jit
def _start(sinks, rows, split, ROWS: tl.constexpr):
    """Each row's greatest score and sum of exponentials before any key: the first split takes the
    sinks in, where there are some."""
    best = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.full((ROWS,), 0, tl.float32)
    if sinks is not None:
        sink = tl.load(sinks + rows.head, mask=rows.exists, other=0).to(tl.float32)
        sink = sink * 1.4426950408889634  # to base 2
        best = tl.where(split == 0, sink, best)
        total = tl.where(split == 0, 1.0, total)
    return best, total


@triton.jit
def _online_softmax(scores, values, best, total, mixed):
    """Each row's greatest score, sum of exponentials and sum of values weighted by them, with more
    keys taken in."""
    higher = tl.maximum(best, tl.max(scores, 1))
    shift = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp2(scores - shift[:, None])
    decay = tl.exp2(best - shift)
    total = total * decay + tl.sum(weights, 1)
    mixed = mixed * decay[:, None] + tl.dot(
        weights.to(values.dtype), values, input_precision="ieee"
    )
    return higher, total, mixed


@triton.jit
def _attend(
    queries,
    rows,
    cache,
    last,
    begin,
    end,
    best,
    total,
    dim,
    scale,
    window,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Each row's greatest score, sum of exponentials and attention over keys begin … end - 1, from
    the first two before them."""
    mixed = tl.full((queries.shape[0], queries.shape[1]), 0, tl.float32)
    for start in range(begin, end, KEYS):
        key_id = start + tl.arange(0, KEYS)
        exists = key_id < end
        keys, values = _load_kv(
            cache, key_id, exists, dim, queries.dtype, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM
        )
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        visible = _visible(last, rows, key_id, exists, window)
        scores = tl.where(visible, scores, float("-inf"))
        best, total, mixed = _online_softmax(scores, values, best, total, mixed)
    mixed = mixed / tl.where(total == 0, 1.0, total)[:, None]
    return best, total, mixed * cache.value_scale


@triton.jit
def _store_rows(
    output,
    log_sums,
    found,
    row_id,
    is_row,
    dim,
    IS_SPLIT: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """Each row's attention, as `_attend` found it; of a split also the logarithm of the row's sum
    of exponentials."""
    best, total, mixed = found
    if IS_SPLIT:
        tl.store(log_sums + row_id, best + tl.log2(total), mask=is_row)
        is_row = is_row & (total != 0)
    tl.store(
        output + row_id[:, None] * HEAD_DIM + dim[None, :],
        mixed,
        mask=is_row[:, None] & (dim < HEAD_DIM)[None, :],
    )


@triton.jit(do_not_specialize=["num_blocks", "num_splits", "num_tree_keys"])
def attention_kernel(
    query,
    key_cache,
    value_cache,
    output,
    log_sums,
    block_table,
    query_start_loc,
    seq_lens,
    position_ids,
    ancestor_mask,
    tree_positions,
    sinks,
    scale,
    value_scale,
    query_stride,
    query_head_stride,
    block_table_stride,
    num_blocks,
    num_splits,
    num_tree_keys,
    window,
    HAS_WINDOW: tl.constexpr,
    IS_SPLIT: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attention of one tile of rows over its split of the keys. `scale` includes that of the keys
    and log₂ e: exponents are to base 2."""
    await_results(OVERLAP)
    kv_head, split = tl.program_id(0), tl.program_id(2)
    seq, block = tl.program_id(1) // num_blocks, tl.program_id(1) % num_blocks
    first = tl.load(query_start_loc + seq)
    query_len = tl.load(query_start_loc + seq + 1) - first
    seq_len = tl.load(seq_lens + seq)
    num_last, last_positions = query_len, position_ids + first
    if ancestor_mask is not None:
        num_last, last_positions = num_tree_keys, tree_positions + seq * num_tree_keys
        ancestor_mask += seq * query_len * num_tree_keys
    last = _LastKeys(ancestor_mask, last_positions, num_last, seq_len - num_last)
    if block * (ROWS // GROUP) < query_len:
        dim = tl.arange(0, BLOCK_DIM)
        token, head, exists = _tile(query_len, block, kv_head, GROUP, ROWS)
        position = None
        if HAS_WINDOW:
            position = tl.load(position_ids + first + token, mask=exists, other=2**31 - 1)
            position = position.to(tl.int32)
        rows = _Rows(first + token, head, token, exists, position)
        queries = _load_queries(query, rows, dim, query_stride, query_head_stride, HEAD_DIM)
        num_own = tl.minimum((block + 1) * (ROWS // GROUP), query_len)
        begin, end = _key_range(
            last, position, seq_len, num_own, split, num_splits, window, IS_SPLIT, KEYS
        )
        best, total = _start(sinks, rows, split, ROWS)
        pages = block_table + seq * block_table_stride
        cache = _Cache(key_cache, value_cache, pages, kv_head, value_scale)
        found = _attend(
            queries,
            rows,
            cache,
            last,
            begin,
            end,
            best,
            total,
            dim,
            scale,
            window,
            NUM_KV_HEADS,
            HEAD_DIM,
            PAGE_SIZE,
            KEYS,
        )
        row_id = (rows.query_id.to(tl.int64) * NUM_KV_HEADS * GROUP + rows.head) * num_splits
        _store_rows(output, log_sums, found, row_id + split, rows.exists, dim, IS_SPLIT, HEAD_DIM)


@triton.jit(do_not_specialize=["num_splits"])
def combine_kernel(
    parts,
    log_sums,
    output,
    num_splits,
    HEAD_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One head of one token: the mean of its parts, each weighted by its sum of exponentials."""
    await_results(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    split, dim = tl.arange(0, BLOCK_SPLITS), tl.arange(0, BLOCK_DIM)
    log_sum = tl.load(
        log_sums + row * num_splits + split, mask=split < num_splits, other=float("-inf")
    )
    best = tl.max(log_sum, 0)
    weight = tl.exp2(log_sum - tl.where(best == float("-inf"), 0.0, best))
    # A NaN part must be read, so that it spoils the row; only what was never written is left out.
    mask = (log_sum != float("-inf"))[:, None] & (dim < HEAD_DIM)[None, :]
    part = tl.load(
        parts + (row * num_splits + split)[:, None] * HEAD_DIM + dim[None, :], mask=mask, other=0
    )
    total = tl.sum(weight, 0)
    mixed = tl.sum(part * weight[:, None], 0) / tl.where(total == 0, 1.0, total)
    tl.store(output + row * HEAD_DIM + dim, mixed, mask=dim < HEAD_DIM)
