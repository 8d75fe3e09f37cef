"""Owns plain-torch attention over the paged cache: the readable twin of the fast backends, which
also runs on a CPU."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from specguide.kernels.attention.interface import (
    AttentionForm,
    AttentionMask,
    AttentionPlan,
    ForwardContext,
    empty_output,
)
from specguide.kernels.attention.scores import attended
from specguide.kernels.attention.sinks import fitting_keys, with_sinks
from specguide.kernels.kv_scales import UNSCALED

# Longer queries go one sequence at a time: their masks would cost more than batching saves.
_MAX_BATCHED_QUERY_LEN = 64
_MOST_PADDED_SEQS = 4


class TorchAttention:
    """Attention in plain torch: a few sequences at a time if all have equally many tokens, else one
    at a time."""

    def plan(self, context: ForwardContext) -> AttentionPlan:
        num_seqs = context.seq_lens.shape[0]
        query_len = context.max_query_len
        num_tokens = context.position_ids.shape[0]
        is_even = num_tokens == num_seqs * query_len == int(context.query_start_loc[-1])
        if not is_even or query_len > _MAX_BATCHED_QUERY_LEN:
            return _RaggedPlan(_spans(context))
        firsts = range(0, num_seqs, _MOST_PADDED_SEQS)
        ends = [min(first + _MOST_PADDED_SEQS, num_seqs) for first in firsts]
        return _PaddedPlan(
            tuple(_pad(context, slice(first, end)) for first, end in zip(firsts, ends, strict=True))
        )

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[AttentionPlan, AttentionPlan]:
        return self.plan(leader), self.plan(follower)


@dataclass(frozen=True, eq=False)
class _Sequences:
    """B sequences of a pass with Q tokens each, and which of S keys each token sees.

    key_index:    int [S], places of the keys in their sequence
    seq_lens:     int32 [B]
    position_ids: int64 [B, Q]
    own_mask:     the pass's mask, cut to these sequences
    masks:        the masks that layers have asked for, by window and group size
    """

    key_index: Tensor
    seq_lens: Tensor
    position_ids: Tensor
    own_mask: AttentionMask
    masks: dict[tuple[int | None, int], Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, context: ForwardContext, seqs: slice, tokens: slice, num_keys: int) -> _Sequences:
        """The sequences `seqs`, whose tokens are `tokens`."""
        seq_lens = context.seq_lens[seqs]
        return cls(
            key_index=torch.arange(num_keys, device=seq_lens.device),
            seq_lens=seq_lens,
            position_ids=context.position_ids[tokens].view(len(seq_lens), -1),
            own_mask=context.mask.select(seqs),
        )

    def mask(self, window: int | None, group: int = 1) -> Tensor:
        """The mask of layers with this window, bool [B, group · Q, S]; it is the same for each of
        the `group` query heads that share a key head."""
        key = window, group
        if key not in self.masks:
            visible = self._visible(window)
            self.masks[key] = visible[:, None].expand(-1, group, -1, -1).flatten(1, 2)
        return self.masks[key]

    def _visible(self, window: int | None) -> Tensor:
        """Which keys each token sees, bool [B, Q, S]."""
        last = self.own_mask.key_positions(self.position_ids)
        num_last = last.shape[1]
        index = self.key_index - (self.seq_lens[:, None] - num_last)  # among the last keys
        visible = self.own_mask.visible(index, self.position_ids.shape[1])
        if window is not None:
            own = index.clamp(0, num_last - 1).to(torch.int64)
            key_position = torch.where(index < 0, self.key_index, last.gather(1, own))
            distance = self.position_ids[:, :, None] - key_position[:, None, :]
            visible = visible & (distance < window)
        return visible


@dataclass(frozen=True, eq=False)
class _Span:
    """One sequence of a ragged pass: its tokens `start` … `end` - 1, and its keys.

    page_ids:  int32 [P]
    is_causal: without a window each token sees all keys before its own, from the first on
    """

    start: int
    end: int
    seq_len: int
    page_ids: Tensor
    is_causal: bool
    sequence: _Sequences

    def mask(self, window: int | None, sinks: Tensor | None) -> Tensor | None:
        """The mask of layers with this window, [Q, S], or one for each head if there are sinks;
        None if `is_causal` already says everything."""
        if self.is_causal and window is None and sinks is None:
            return None
        mask = self.sequence.mask(window)[0]
        return mask if sinks is None else with_sinks(mask, sinks[:, None].expand(-1, len(mask)))


def _spans(context: ForwardContext) -> tuple[_Span, ...]:
    """The sequences of a pass that have tokens."""
    bounds = context.query_start_loc.tolist()
    spans = []
    for seq, seq_len in enumerate(context.seq_lens.tolist()):
        start, end = bounds[seq], bounds[seq + 1]
        if end > start:
            num_pages = -(-seq_len // context.page_size)
            seqs, tokens = slice(seq, seq + 1), slice(start, end)
            spans.append(
                _Span(
                    start=start,
                    end=end,
                    seq_len=seq_len,
                    page_ids=context.block_table[seq, :num_pages],
                    is_causal=context.mask.is_causal and seq_len == end - start,
                    sequence=_Sequences.of(context, seqs, tokens, seq_len),
                )
            )
    return tuple(spans)


@dataclass(frozen=True, eq=False)
class _RaggedPlan:
    """The plan of a ragged pass: one sequence after another."""

    spans: tuple[_Span, ...]

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor:
        output = empty_output(query, value_cache) if output is None else output
        output.zero_()
        for span in self.spans:
            keys, values = (
                cache.index_select(0, span.page_ids).flatten(0, 1)[: span.seq_len].to(query.dtype)
                for cache in (key_cache, value_cache)
            )
            output[span.start : span.end] = _attend_one(
                query[span.start : span.end],
                keys,
                values,
                span.mask(form.sliding_window, form.sinks),
                form,
            )
        return output if form.scales == UNSCALED else output.mul_(form.scales.value)


def _attend_one(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, form: AttentionForm
) -> Tensor:
    """Attention of one sequence: query [Q, num_heads, head_dim], keys and values [S, num_kv_heads,
    head_dim or value_dim] → [Q, num_heads, value_dim]."""
    query, keys, values = (tensor.transpose(0, 1)[None] for tensor in (query, keys, values))
    keys, values = fitting_keys(mask, keys, values)
    output = attended(query, keys, values, mask, form)
    return output[0].transpose(0, 1)


@dataclass(frozen=True, eq=False)
class _PaddedKeys:
    """B sequences of Q tokens each, whose keys are gathered together and padded to S keys.

    page_ids: int64 [B · P], the pages to gather
    past_end: int64, places of the padding among the B · S gathered keys
    """

    sequences: _Sequences
    page_ids: Tensor
    past_end: Tensor

    def mask(self, window: int | None, group: int, sinks: Tensor | None) -> Tensor:
        """The mask of layers with this window, [B, 1, group · Q, S], or with sinks one for each key
        head, [B, num_kv_heads, group · Q, S + 1]."""
        mask = self.sequences.mask(window, group)[:, None]
        if sinks is None:
            return mask
        query_len = mask.shape[2] // group
        return with_sinks(mask, sinks.view(-1, group).repeat_interleave(query_len, 1))


def _pad(context: ForwardContext, seqs: slice) -> _PaddedKeys:
    """The gathered keys of some sequences of an even pass; only pages in use are gathered."""
    seq_lens = context.seq_lens[seqs]
    num_pages = max(1, -(-int(seq_lens.max()) // context.page_size))
    pages = context.block_table[seqs, :num_pages]  # a table may end before the drafts do
    tokens = slice(seqs.start * context.max_query_len, seqs.stop * context.max_query_len)
    sequences = _Sequences.of(context, seqs, tokens, pages.shape[1] * context.page_size)
    return _PaddedKeys(
        sequences=sequences,
        page_ids=pages.clamp(min=0).flatten(),
        past_end=(sequences.key_index >= seq_lens[:, None]).flatten().nonzero()[:, 0],
    )


@dataclass(frozen=True, eq=False)
class _PaddedPlan:
    """The plan of an even pass: a few sequences at a time, so that their gathered keys stay in the
    processor's caches while they are read."""

    parts: tuple[_PaddedKeys, ...]

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor:
        group = query.shape[1] // key_cache.shape[2]
        queries = query.split([part.sequences.position_ids.numel() for part in self.parts])
        attended = [
            _attend_padded(
                some,
                key_cache,
                value_cache,
                part,
                part.mask(form.sliding_window, group, form.sinks),
                form,
            )
            for some, part in zip(queries, self.parts, strict=True)
        ]
        output = torch.cat(attended, out=output)
        return output if form.scales == UNSCALED else output.mul_(form.scales.value)


def _attend_padded(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    part: _PaddedKeys,
    mask: Tensor,
    form: AttentionForm,
) -> Tensor:
    """Attention of some sequences: query [B · Q, num_heads, head_dim] → [B · Q, num_heads,
    value_dim]. mask: the mask of `part`"""
    num_seqs, query_len = part.sequences.position_ids.shape
    num_kv_heads, head_dim = key_cache.shape[2:]
    group = query.shape[1] // num_kv_heads
    # The query heads that share a key head become rows of one query, so that no key is copied for
    # them.
    rows = query.reshape(num_seqs, query_len, num_kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
    rows = rows.reshape(num_seqs, num_kv_heads, group * query_len, head_dim)
    # Masked values must still be finite: a weight of zero times a NaN that an earlier request left
    # in the page would be NaN.
    keys, values = (
        cache.index_select(0, part.page_ids)
        .to(query.dtype)
        .flatten(0, 1)
        .index_fill_(0, part.past_end, 0)
        .view(num_seqs, -1, num_kv_heads, cache.shape[-1])
        .transpose(1, 2)
        for cache in (key_cache, value_cache)
    )
    keys, values = fitting_keys(mask, keys, values)
    output = attended(rows, keys, values, mask, form)
    output = output.view(num_seqs, num_kv_heads, group, query_len, -1).permute(0, 3, 1, 2, 4)
    return output.reshape(*query.shape[:-1], -1)
