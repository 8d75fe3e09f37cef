"""Owns plain-torch attention over the paged cache: the readable twin of the fast kernel, and what
runs on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specguide.batch import ForwardContext, TreeKeys

# Longer queries go one sequence at a time: their masks outgrow what batching saves.
_MAX_BATCHED_QUERY_LEN = 64
_MOST_PADDED_SEQS = 4


def store_kv(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """Writes keys and values of one layer to their slots of the paged cache.

    key, value:             [T, num_kv_heads, head_dim]
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim], contiguous; written in
                            place
    slot_mapping:           int64 [T], page · page_size + offset, distinct; a token with -1 is not
                            stored
    """
    if bool((slot_mapping < 0).any()):
        stored = slot_mapping >= 0
        key, value, slot_mapping = key[stored], value[stored], slot_mapping[stored]
    for tensor, cache in ((key, key_cache), (value, value_cache)):
        cache.view(-1, *cache.shape[2:]).index_copy_(0, slot_mapping, tensor.to(cache.dtype))


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    context: ForwardContext,
    *,
    scale: float,
    sliding_window: int | None = None,
) -> Tensor:
    """Grouped-query attention of one layer over the paged cache, which holds this pass's keys
    already.

    The keys of a sequence are in its pages in order; the last of them are the tokens of this pass,
    its queries. A token sees every key before this pass, and of this pass itself and the tokens
    before it. Of the keys of a `context.tree` it sees those that its row of the mask names, and all
    before them. With a sliding window w it sees only keys whose position is less than w before its
    own; tokens of this pass and of a tree stand at their position_ids.

    query:                  [T, num_heads, head_dim], num_heads a multiple of num_kv_heads
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim]
    scale:                  factor on the dot products
    Returns [T, num_heads, head_dim] of query's dtype; zeros for a token that sees nothing, anything
    for those behind the last sequence's.
    """
    query_len, num_full = context.max_query_len, context.seq_lens.shape[0] * context.max_query_len
    if (
        query.shape[0] == num_full == context.query_start_loc[-1]
        and query_len <= _MAX_BATCHED_QUERY_LEN
    ):
        return _attend_batched(query, key_cache, value_cache, context, scale, sliding_window)
    output = torch.zeros_like(query)
    bounds = context.query_start_loc.tolist()
    for seq, seq_len in enumerate(context.seq_lens.tolist()):
        start, end = bounds[seq], bounds[seq + 1]
        if end > start:
            pages = context.block_table[seq, : -(-seq_len // key_cache.shape[1])]
            keys, values = (
                cache.index_select(0, pages).flatten(0, 1)[:seq_len]
                for cache in (key_cache, value_cache)
            )
            mask = _sequence_mask(context, seq, start, end, seq_len, sliding_window)
            output[start:end] = _attend_one(query[start:end], keys, values, mask, scale)
    return output


def _sequence_mask(
    context: ForwardContext, seq: int, start: int, end: int, seq_len: int, window: int | None
) -> Tensor | None:
    """bool [Q, seq_len] for one sequence of a ragged pass; None where it is plainly causal from the
    first key."""
    if seq_len == end - start and context.tree is None and window is None:
        return None
    tree = context.tree and TreeKeys(
        context.tree.sees[seq : seq + 1], context.tree.position_ids[seq : seq + 1]
    )
    return _visible_keys(
        torch.arange(seq_len, device=context.seq_lens.device),
        context.seq_lens[seq : seq + 1],
        context.position_ids[None, start:end],
        tree,
        window,
    )[0]


def _attend_one(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """query [Q, num_heads, head_dim], keys and values [S, num_kv_heads, head_dim] → [Q, num_heads,
    head_dim]."""
    query, keys, values = (tensor.transpose(0, 1)[None] for tensor in (query, keys, values))
    output = scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True
    )
    return output[0].transpose(0, 1)


def _attend_batched(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    context: ForwardContext,
    scale: float,
    window: int | None,
) -> Tensor:
    """paged_attention where every sequence has max_query_len tokens: padded calls for a few
    sequences each, whose keys are gathered into the processor's caches and read there."""
    plans = _plans_of(context, key_cache.shape[1], query.shape[1] // key_cache.shape[2], window)
    parts = query.split([plan.num_seqs * context.max_query_len for plan in plans])
    return torch.cat(
        [
            _attend_padded(part, key_cache, value_cache, plan, scale)
            for part, plan in zip(parts, plans, strict=True)
        ]
    )


def _attend_padded(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: _PaddedPlan, scale: float
) -> Tensor:
    num_seqs, num_kv_heads, head_dim = plan.num_seqs, *key_cache.shape[2:]
    query_len, group = query.shape[0] // num_seqs, query.shape[1] // num_kv_heads
    # The query heads that share a key head become rows of one query, so that no key is copied for
    # them.
    rows = query.reshape(num_seqs, query_len, num_kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(num_seqs, num_kv_heads, group * query_len, head_dim)
    # What is masked must still be a number: a weight of zero does not silence the NaN that some
    # request left behind.
    keys, values = (
        cache.index_select(0, plan.page_ids)
        .flatten(0, 1)
        .index_fill_(0, plan.past_end, 0)
        .view(num_seqs, -1, num_kv_heads, head_dim)
        .transpose(1, 2)
        for cache in (key_cache, value_cache)
    )
    output = scaled_dot_product_attention(rows, keys, values, attn_mask=plan.mask, scale=scale)
    output = output.view(num_seqs, num_kv_heads, group, query_len, head_dim).permute(0, 3, 1, 2, 4)
    return output.reshape(query.shape)


@dataclass(frozen=True)
class _PaddedPlan:
    """What the layers of one batched pass share, for B of its sequences, Q tokens each, S keys with
    padding.

    num_seqs: B
    page_ids: int64 [B · P], the pages to gather
    past_end: int64, which of the B · S gathered keys are padding
    mask:     bool [B, 1, group · Q, S]
    """

    num_seqs: int
    page_ids: Tensor
    past_end: Tensor
    mask: Tensor


_plans: WeakKeyDictionary[ForwardContext, dict[tuple[int, int, int | None], list[_PaddedPlan]]] = (
    WeakKeyDictionary()
)


def _plans_of(
    context: ForwardContext, page_size: int, group: int, window: int | None
) -> list[_PaddedPlan]:
    """The pass's plans, made by its first layer."""
    plans, key = _plans.setdefault(context, {}), (page_size, group, window)
    if key not in plans:
        num_seqs = context.seq_lens.shape[0]
        plans[key] = [
            _make_plan(context, slice(first, min(first + _MOST_PADDED_SEQS, num_seqs)), *key)
            for first in range(0, num_seqs, _MOST_PADDED_SEQS)
        ]
    return plans[key]


def _make_plan(
    context: ForwardContext, seqs: slice, page_size: int, group: int, window: int | None
) -> _PaddedPlan:
    block_table, seq_lens = context.block_table[seqs], context.seq_lens[seqs]
    num_seqs, query_len = block_table.shape[0], context.max_query_len
    tree = context.tree and TreeKeys(context.tree.sees[seqs], context.tree.position_ids[seqs])
    if (
        block_table.device.type == "cpu"
    ):  # where reading a length costs nothing, gather only pages in use
        block_table = block_table[:, : max(1, -(-int(seq_lens.max()) // page_size))]
    key_index = torch.arange(block_table.shape[1] * page_size, device=seq_lens.device)
    position = context.position_ids.view(-1, query_len)[seqs]
    visible = _visible_keys(key_index, seq_lens, position, tree, window)
    return _PaddedPlan(
        num_seqs=num_seqs,
        page_ids=block_table.clamp(min=0).flatten(),
        past_end=(key_index >= seq_lens[:, None]).flatten().nonzero()[:, 0],
        mask=visible[:, None, None]
        .expand(-1, -1, group, -1, -1)
        .reshape(num_seqs, 1, group * query_len, -1),
    )


def _visible_keys(
    key_index: Tensor, seq_lens: Tensor, position: Tensor, tree: TreeKeys | None, window: int | None
) -> Tensor:
    """bool [B, Q, S]: which of S keys, at key_index [S], each of Q tokens sees.

    seq_lens: int [B]
    position: int64 [B, Q], where the tokens stand
    """
    query_len, last = position.shape[1], position if tree is None else tree.position_ids
    num_last = last.shape[1]
    index = key_index - (seq_lens[:, None] - num_last)  # among the last keys
    own = index.clamp(0, num_last - 1).to(torch.int64)
    if tree is None:
        visible = index[:, None, :] <= torch.arange(query_len, device=own.device)[:, None]
    else:
        sees = tree.sees.gather(2, own[:, None].expand(-1, query_len, -1))
        visible = (index < 0)[:, None] | (sees & (index < num_last)[:, None])
    if window is not None:
        key_position = torch.where(index < 0, key_index, last.gather(1, own))
        visible = visible & (position[:, :, None] - key_position[:, None, :] < window)
    return visible
