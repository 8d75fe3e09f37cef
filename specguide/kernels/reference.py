"""Owns the plain-torch kernels: the readable twin of every fast kernel, and what runs on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specguide.batch import ForwardContext

# Above this, one sequence's mask outgrows what batching saves.
_MAX_BATCHED_QUERY_LEN = 64


def store_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Writes keys and values of one layer to their slots of the paged cache.

    key, value:             [T, num_kv_heads, head_dim]
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim], contiguous; written in place
    slot_mapping:           int64 [T], page · page_size + offset, distinct; a token with -1 is not stored
    """
    stored = slot_mapping >= 0
    slots = slot_mapping[stored]
    for tensor, cache in ((key, key_cache), (value, value_cache)):
        cache.view(-1, *cache.shape[2:]).index_copy_(0, slots, tensor[stored].to(cache.dtype))


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    context: ForwardContext,
    *,
    scale: float,
    sliding_window: int | None = None,
) -> Tensor:
    """Grouped-query attention of one layer over the paged cache, which holds this pass's keys already.

    The keys of a sequence are in its pages in order; the last of them are the tokens of this pass, its queries.
    A token sees every key before this pass, and of this pass itself and the tokens before it or, with
    `context.tree_mask`, those that its row of the mask names. With a sliding window w it sees only keys whose
    position is less than w before its own; a token of this pass stands at its `context.position_ids`.

    query:                  [T, num_heads, head_dim], num_heads a multiple of num_kv_heads
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim]
    scale:                  factor on the dot products
    Returns [T, num_heads, head_dim] of query's dtype; zeros for a token that sees nothing.
    """
    num_seqs = context.block_table.shape[0]
    query_len = context.max_query_len
    if query.shape[0] == num_seqs * query_len and query_len <= _MAX_BATCHED_QUERY_LEN:
        return _attend(query, key_cache, value_cache, context, scale, sliding_window)
    output = torch.zeros_like(query)
    bounds = context.query_start_loc.tolist()
    for seq, (start, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        if end > start:
            one = _sequence_context(context, seq, start, end)
            output[start:end] = _attend(query[start:end], key_cache, value_cache, one, scale, sliding_window)
    return output


def _sequence_context(context: ForwardContext, seq: int, start: int, end: int) -> ForwardContext:
    """One sequence of `context` as a context of its own."""
    return ForwardContext(
        position_ids=context.position_ids[start:end],
        slot_mapping=context.slot_mapping[start:end],
        block_table=context.block_table[seq : seq + 1],
        query_start_loc=context.query_start_loc[seq : seq + 2] - start,
        seq_lens=context.seq_lens[seq : seq + 1],
        max_query_len=end - start,
        tree_mask=context.tree_mask,
    )


def _attend(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, context: ForwardContext, scale: float, window: int | None
) -> Tensor:
    """paged_attention where every sequence has max_query_len tokens: one padded call for all."""
    num_tokens, num_heads, head_dim = query.shape
    num_seqs, query_len, num_kv_heads = context.block_table.shape[0], context.max_query_len, key_cache.shape[2]
    group = num_heads // num_kv_heads
    block_table, page_size = context.block_table, key_cache.shape[1]
    if block_table.device.type == "cpu":  # where reading a length costs nothing, gather only pages in use
        block_table = block_table[:, : -(-int(context.seq_lens.max()) // page_size)]
    visible = _visible_keys(context, block_table.shape[1] * page_size, window)
    keys = _gather_pages(key_cache, block_table, context.seq_lens)
    values = _gather_pages(value_cache, block_table, context.seq_lens)
    # The query heads that share a key head become rows of one query, so that no key is copied for them.
    rows = query.view(num_seqs, query_len, num_kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(num_seqs, num_kv_heads, group * query_len, head_dim)
    mask = visible[:, None, None].expand(-1, -1, group, -1, -1).reshape(num_seqs, 1, group * query_len, -1)
    output = scaled_dot_product_attention(rows, keys, values, attn_mask=mask, scale=scale)
    output = output.view(num_seqs, num_kv_heads, group, query_len, head_dim).permute(0, 3, 1, 2, 4)
    return output.reshape(num_tokens, num_heads, head_dim)


def _gather_pages(cache: Tensor, block_table: Tensor, seq_lens: Tensor) -> Tensor:
    """[B, num_kv_heads, P · page_size, head_dim] of block_table's pages, zero past each sequence's end.

    A page's old content may be anything, NaN included, and a weight of zero does not silence NaN.
    """
    pages = cache[block_table.clamp(min=0).to(torch.int64)].flatten(1, 2)
    past_end = torch.arange(pages.shape[1], device=pages.device) >= seq_lens[:, None]
    return pages.masked_fill_(past_end[..., None, None], 0).transpose(1, 2)


def _visible_keys(context: ForwardContext, num_keys: int, window: int | None) -> Tensor:
    """bool [B, Q, num_keys]: which keys each token sees. Every sequence has Q tokens in this pass."""
    num_seqs, query_len = context.seq_lens.shape[0], context.max_query_len
    key_index = torch.arange(num_keys, device=context.seq_lens.device)
    # Index of each key among this pass's tokens; negative for earlier keys.
    chunk_index = key_index - (context.seq_lens[:, None] - query_len)
    if context.tree_mask is None:
        visible = chunk_index[:, None, :] <= torch.arange(query_len, device=key_index.device)[:, None]
    else:
        in_tree = context.tree_mask[:, chunk_index.clamp(0, query_len - 1)].transpose(0, 1)
        visible = (chunk_index < 0)[:, None] | (in_tree & (chunk_index < query_len)[:, None])
    if window is not None:
        position = context.position_ids.view(num_seqs, query_len)
        own = position.gather(1, chunk_index.clamp(0, query_len - 1))
        key_position = torch.where(chunk_index < 0, key_index, own)
        visible = visible & (position[:, :, None] - key_position[:, None, :] < window)
    return visible
