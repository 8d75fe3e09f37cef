"""Owns the plain-torch kernels: the readable twin of every fast kernel, and what runs on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from specguide.batch import ForwardContext, TreeKeys
from specguide.kernels.noise import exponential_noise
from specguide.kernels.sampling_tensors import GREEDY_TEMPERATURE, SamplingTensors

# Longer queries go one sequence at a time: their masks outgrow what batching saves.
_MAX_BATCHED_QUERY_LEN = 64


def store_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Writes keys and values of one layer to their slots of the paged cache.

    key, value:             [T, num_kv_heads, head_dim]
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim], contiguous; written in place
    slot_mapping:           int64 [T], page · page_size + offset, distinct; a token with -1 is not stored
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
    """Grouped-query attention of one layer over the paged cache, which holds this pass's keys already.

    The keys of a sequence are in its pages in order; the last of them are the tokens of this pass, its queries.
    A token sees every key before this pass, and of this pass itself and the tokens before it. Of the keys of a
    `context.tree` it sees those that its row of the mask names, and all before them. With a sliding window w it sees
    only keys whose position is less than w before its own; tokens of this pass and of a tree stand at their
    position_ids.

    query:                  [T, num_heads, head_dim], num_heads a multiple of num_kv_heads
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim]
    scale:                  factor on the dot products
    Returns [T, num_heads, head_dim] of query's dtype; zeros for a token that sees nothing, anything
    for those behind the last sequence's.
    """
    query_len, num_full = context.max_query_len, context.seq_lens.shape[0] * context.max_query_len
    if query.shape[0] == num_full == context.query_start_loc[-1] and query_len <= _MAX_BATCHED_QUERY_LEN:
        return _attend_batched(query, key_cache, value_cache, context, scale, sliding_window)
    output = torch.zeros_like(query)
    bounds = context.query_start_loc.tolist()
    for seq, seq_len in enumerate(context.seq_lens.tolist()):
        start, end = bounds[seq], bounds[seq + 1]
        if end > start:
            pages = context.block_table[seq, : -(-seq_len // key_cache.shape[1])]
            keys, values = (cache.index_select(0, pages).flatten(0, 1)[:seq_len] for cache in (key_cache, value_cache))
            mask = _sequence_mask(context, seq, start, end, seq_len, sliding_window)
            output[start:end] = _attend_one(query[start:end], keys, values, mask, scale)
    return output


def _sequence_mask(
    context: ForwardContext, seq: int, start: int, end: int, seq_len: int, window: int | None
) -> Tensor | None:
    """bool [Q, seq_len] for one sequence of a ragged pass; None where it is plainly causal from the first key."""
    if seq_len == end - start and context.tree is None and window is None:
        return None
    tree = context.tree and TreeKeys(context.tree.sees[seq:seq + 1], context.tree.position_ids[seq:seq + 1])
    return _visible_keys(torch.arange(seq_len, device=context.seq_lens.device), context.seq_lens[seq:seq + 1],
                         context.position_ids[None, start:end], tree, window)[0]


def _attend_one(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """query [Q, num_heads, head_dim], keys and values [S, num_kv_heads, head_dim] → [Q, num_heads, head_dim]."""
    query, keys, values = (tensor.transpose(0, 1)[None] for tensor in (query, keys, values))
    output = scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True)
    return output[0].transpose(0, 1)


def _attend_batched(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, context: ForwardContext, scale: float, window: int | None
) -> Tensor:
    """paged_attention where every sequence has max_query_len tokens: one padded call for all."""
    num_seqs, query_len, num_kv_heads = context.seq_lens.shape[0], context.max_query_len, key_cache.shape[2]
    group, head_dim = query.shape[1] // num_kv_heads, query.shape[2]
    plan = _plan(context, key_cache.shape[1], group, window)
    # The query heads that share a key head become rows of one query, so that no key is copied for them.
    rows = query.reshape(num_seqs, query_len, num_kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(num_seqs, num_kv_heads, group * query_len, head_dim)
    # What is masked must still be a number: a weight of zero does not silence the NaN that some request left behind.
    keys, values = (
        cache.index_select(0, plan.page_ids).flatten(0, 1).index_fill_(0, plan.past_end, 0)
        .view(num_seqs, -1, num_kv_heads, head_dim).transpose(1, 2)
        for cache in (key_cache, value_cache))
    output = scaled_dot_product_attention(rows, keys, values, attn_mask=plan.mask, scale=scale)
    output = output.view(num_seqs, num_kv_heads, group, query_len, head_dim).permute(0, 3, 1, 2, 4)
    return output.reshape(query.shape)


@dataclass(frozen=True)
class _BatchedPlan:
    """What the layers of one batched pass share. B sequences, Q tokens each, S keys with padding.

    page_ids: int64 [B · P], the pages to gather
    past_end: int64, which of the B · S gathered keys are padding
    mask:     bool [B, 1, group · Q, S]
    """

    page_ids: Tensor
    past_end: Tensor
    mask: Tensor


_plans: WeakKeyDictionary[ForwardContext, dict[tuple[int, int, int | None], _BatchedPlan]] = WeakKeyDictionary()


def _plan(context: ForwardContext, page_size: int, group: int, window: int | None) -> _BatchedPlan:
    """The pass's plan, made by its first layer."""
    plans, key = _plans.setdefault(context, {}), (page_size, group, window)
    if key not in plans:
        plans[key] = _make_plan(context, *key)
    return plans[key]


def _make_plan(context: ForwardContext, page_size: int, group: int, window: int | None) -> _BatchedPlan:
    block_table, seq_lens = context.block_table, context.seq_lens
    num_seqs, query_len = block_table.shape[0], context.max_query_len
    if block_table.device.type == "cpu":  # where reading a length costs nothing, gather only pages in use
        block_table = block_table[:, : max(1, -(-int(seq_lens.max()) // page_size))]
    key_index = torch.arange(block_table.shape[1] * page_size, device=seq_lens.device)
    position = context.position_ids.view(num_seqs, query_len)
    visible = _visible_keys(key_index, seq_lens, position, context.tree, window)
    return _BatchedPlan(
        page_ids=block_table.clamp(min=0).flatten(),
        past_end=(key_index >= seq_lens[:, None]).flatten().nonzero()[:, 0],
        mask=visible[:, None, None].expand(-1, -1, group, -1, -1).reshape(num_seqs, 1, group * query_len, -1))


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


def apply_bitmask(logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor) -> None:
    """Writes -inf in place where a guided row forbids a token; rows that are not guided stay as they are.

    logits:  [n, V], floating
    bitmask: int32 [R, ≥ ceil(V / 32)], bit i % 32 of word i // 32 is 1 where token i is allowed; bits past V are void
    guided:  uint8 or bool [R]; where it is 0 the row is free and its words do not count
    row_ids: int64 [n], the bitmask row of each row of logits
    """
    forbidden = _bias(bitmask, guided, row_ids, torch.float32)[:, : logits.shape[1]] < 0
    logits.masked_fill_(forbidden, float("-inf"))


def copy_guided_rows(copies: Tensor, bitmask: Tensor, guided: Tensor) -> None:
    """Copy those rows of a bitmask, int32 [R, S, words], that count; guided: uint8 [R, S]."""
    copies.copy_(torch.where(guided[:, :, None] != 0, bitmask, copies))


def masked_argmax(
    logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor, target_ids: Tensor | None = None
) -> Tensor:
    """The likeliest allowed token of each row, as a target id; of equals the one that comes first.

    logits:                   [n, Vd] over the draft vocabulary, floating; a NaN or -inf is never chosen
    bitmask, guided, row_ids: as for apply_bitmask, over the target vocabulary; bits past its end are 0
    target_ids:               int32 or int64 [Vd], target id of each draft id; None where the vocabularies are one
    Returns int32 [n]. Where a row allows no token of a pruned draft vocabulary, its only allowed target token, if it
    has just one. Otherwise -1: nothing to choose.
    """
    bias = _bias(bitmask, guided, row_ids, logits.dtype)
    bias = bias[:, : logits.shape[1]] if target_ids is None else bias.index_select(1, target_ids)
    best, token = _choosable(logits + bias).max(dim=-1)
    if target_ids is None:
        return token.masked_fill(best == float("-inf"), -1).to(torch.int32)
    token = target_ids[token].masked_fill(best == float("-inf"), -1)
    is_out_of_reach = bias.amax(dim=-1) < 0
    return torch.where(is_out_of_reach, _only_token(bitmask[row_ids]), token).to(torch.int32)


def masked_top_k(
    logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor, target_ids: Tensor | None, k: int
) -> tuple[Tensor, Tensor]:
    """The k likeliest allowed tokens of each row, as target ids, and how likely they are among the allowed ones.

    logits and the others: as for masked_argmax, which gives the same token as the first here, up to equals
    Returns int32 [n, k], likeliest first, -1 where there is no further one, and float32 [n, k] log-probabilities, -inf
    there. A row's only allowed token, where a pruned vocabulary has none, has probability 1.
    """
    bias = _bias(bitmask, guided, row_ids, torch.float32)
    bias = bias[:, : logits.shape[1]] if target_ids is None else bias.index_select(1, target_ids)
    allowed = _choosable(logits.float() + bias)
    values, places = allowed.topk(min(k, allowed.shape[1]), dim=-1)
    missing = values == float("-inf")
    tokens = (places if target_ids is None else target_ids[places]).masked_fill(missing, -1).to(torch.int32)
    # Infinity less infinity: the likelihood of an infinite logit, beside which all others are nothing.
    logprobs = (values - allowed.logsumexp(dim=-1, keepdim=True)).nan_to_num_(nan=0.0, neginf=float("-inf"))
    logprobs = logprobs.masked_fill(missing, float("-inf"))
    if target_ids is not None:
        is_only = (bias.amax(dim=-1) < 0)[:, None] & (torch.arange(tokens.shape[1], device=tokens.device) == 0)
        only = _only_token(bitmask[row_ids])[:, None].to(torch.int32)
        tokens, logprobs = torch.where(is_only, only, tokens), torch.where(is_only & (only >= 0), 0.0, logprobs)
    padding = 0, k - tokens.shape[1]
    return pad(tokens, padding, value=-1), pad(logprobs, padding, value=float("-inf"))


def masked_sample(
    logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor, params: SamplingTensors, positions: Tensor
) -> Tensor:
    """One token of each row, drawn from its masked, filtered and renormalised distribution.

    The filters come in vLLM's order: mask, temperature, min-p, top-k (with all equals of the k-th), top-p (of equals
    the lowest ids first; the mass is that of what top-k left). The draw is a race of exponential clocks: the token
    whose noise / probability is least. Greedy rows take their likeliest token, of equals the lowest id.

    logits:                   [n, V], floating; a NaN or -inf is never chosen
    bitmask, guided, row_ids: as for apply_bitmask
    params:                   one entry per row
    positions:                int64 [n], position in the sequence of the token to be drawn; with the seed it makes
                              the noise, and nothing else does
    Returns int32 [n]; -1 where there is nothing to choose.
    """
    if params.temperature is None:
        return masked_argmax(logits, bitmask, guided, row_ids)
    bias = _bias(bitmask, guided, row_ids, torch.float32)
    logits = _choosable(logits.float() + bias[:, : logits.shape[1]])
    best, greedy = logits.max(dim=-1, keepdim=True)
    temperature = params.temperature[:, None]
    is_greedy = temperature < GREEDY_TEMPERATURE
    # Infinity less infinity: a row whose best is infinite, either way, must not make NaN of itself.
    scaled = logits.sub(best).nan_to_num_(nan=0.0, neginf=float("-inf")).div_(temperature.masked_fill(is_greedy, 1.0))
    noise = exponential_noise(params.seed, positions, logits.shape[1])
    drawn = _filter(scaled, params).exp().div_(noise).argmax(dim=-1, keepdim=True)
    token = torch.where(is_greedy, greedy, drawn).masked_fill(best == float("-inf"), -1)
    return token[:, 0].to(torch.int32)


def _filter(scaled: Tensor, params: SamplingTensors) -> Tensor:
    """Log-weights [n, V], the greatest 0, with -inf for what min-p, top-k and top-p drop."""
    if params.min_p is not None:
        scaled = scaled.masked_fill(scaled.exp() < params.min_p[:, None], float("-inf"))
    if params.top_k is None and params.top_p is None:
        return scaled
    values, tokens = scaled.sort(dim=-1, descending=True, stable=True)
    if params.top_k is not None:
        num_kept = params.top_k.masked_fill(params.top_k <= 0, scaled.shape[1]).clamp(max=scaled.shape[1])
        values = values.masked_fill(values < values.gather(1, num_kept[:, None] - 1), float("-inf"))
    if params.top_p is not None:
        mass = values.softmax(dim=-1, dtype=torch.float64)
        before, top_p = mass.cumsum(dim=-1) - mass, params.top_p[:, None]
        values = values.masked_fill((before >= top_p) & (top_p < 1), float("-inf"))
    return torch.empty_like(scaled).scatter_(1, tokens, values)


def _choosable(logits: Tensor) -> Tensor:
    """Logits in which what cannot be chosen is -inf: NaN too, and +inf under a mask, which has become NaN."""
    return logits.nan_to_num_(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))


def _bias(bitmask: Tensor, guided: Tensor, row_ids: Tensor, dtype: torch.dtype) -> Tensor:
    """[n, 32 · words]: 0 where a token is allowed, -inf where not; free rows allow all."""
    free_words = (guided[row_ids] == 0).to(torch.int32).neg_()[:, None]
    rows = bitmask[row_ids] | free_words
    bytes_ = rows.view(torch.uint8).flatten().to(torch.int32)
    return _byte_bias(dtype, rows.device).index_select(0, bytes_).view(rows.shape[0], 32 * rows.shape[1])


@lru_cache(maxsize=16)
def _byte_bias(dtype: torch.dtype, device: torch.device) -> Tensor:
    """[256, 8]: the bias of the eight tokens of each byte; a lookup is far quicker than shifting bits."""
    bits = torch.arange(256)[:, None] >> torch.arange(8) & 1
    return torch.zeros(256, 8, dtype=dtype).masked_fill_(bits == 0, float("-inf")).to(device)


def _only_token(rows: Tensor) -> Tensor:
    """int64 [n]: the token that a row of int32 words allows, where it allows exactly one; -1 elsewhere."""
    in_use = rows != 0
    index = in_use.int().argmax(dim=-1)
    word = rows.gather(1, index[:, None])[:, 0]
    is_single = (in_use.sum(dim=-1) == 1) & ((word & (word - 1)) == 0)
    bit = torch.log2((word.to(torch.int64) & 0xFFFFFFFF).double()).to(torch.int64)
    return torch.where(is_single, index * 32 + bit, -1)
