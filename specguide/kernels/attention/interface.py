"""Owns ForwardContext, what the layers of a pass share, and what an attention backend is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from specguide.kernels.float8 import Float8Rows, Float8Scaling
from specguide.kernels.kv_scales import UNSCALED, KVScales

KernelMask = tuple[Tensor | None, Tensor | None, int]
"""The ancestor mask of a tree as uint8, the positions of its nodes and their number; (None, None,
0) without a tree."""


class AttentionMask(Protocol):
    """Which of the last M keys of each of B sequences the Q tokens of a pass see; all keys before
    these are seen.

    is_causal:      a token sees its own key and those before it
    most_tile_rows: most rows of a tile of a fast kernel in half precision, which may read a mask
                    beside the keys
    most_tile_keys: most keys of its steps
    """

    is_causal: bool
    most_tile_rows: int
    most_tile_keys: int

    def select(self, sequences: slice) -> AttentionMask:
        """The mask of some sequences."""

    def key_positions(self, position_ids: Tensor) -> Tensor:
        """The positions of the last keys, int64 [B, M]. position_ids: positions of the tokens,
        int64 [B, Q]"""

    def visible(self, index: Tensor, query_len: int) -> Tensor:
        """Which of S keys each token sees, bool [B, Q, S]. index: int [B, S], the keys' places
        among the last M; below 0 for keys before these"""

    def kernel_mask(self) -> KernelMask:
        """The mask as a kernel reads it."""


class CausalMask:
    """Each token follows the one before; the last keys are the pass's own, M = Q."""

    is_causal = True
    most_tile_rows = 128
    most_tile_keys = 64

    def select(self, sequences: slice) -> CausalMask:
        return self

    def key_positions(self, position_ids: Tensor) -> Tensor:
        return position_ids

    def visible(self, index: Tensor, query_len: int) -> Tensor:
        return index[:, None, :] <= torch.arange(query_len, device=index.device)[:, None]

    def kernel_mask(self) -> KernelMask:
        return None, None, 0


CAUSAL = CausalMask()


@dataclass(frozen=True, eq=False)
class TreeMask:
    """The last keys are nodes of a draft tree, of which the last Q are this pass's own.

    ancestor_mask: bool [B, Q, M], entry [b, i, j] says whether token i of the pass sees key j of
                   the last M
    position_ids:  int64 [B, M], where the nodes stand
    """

    ancestor_mask: Tensor
    position_ids: Tensor
    is_causal = False
    most_tile_rows = 64
    most_tile_keys = 32

    def select(self, sequences: slice) -> TreeMask:
        return TreeMask(self.ancestor_mask[sequences], self.position_ids[sequences])

    def key_positions(self, position_ids: Tensor) -> Tensor:
        return self.position_ids

    def visible(self, index: Tensor, query_len: int) -> Tensor:
        num_last = self.position_ids.shape[1]
        own = index.clamp(0, num_last - 1).to(torch.int64)
        visible = self.ancestor_mask.gather(2, own[:, None].expand(-1, query_len, -1))
        return (index < 0)[:, None] | (visible & (index < num_last)[:, None])

    def kernel_mask(self) -> KernelMask:
        mask = self.ancestor_mask.contiguous().view(torch.uint8)
        return mask, self.position_ids.contiguous(), self.position_ids.shape[1]


@dataclass(frozen=True, eq=False)
class ForwardContext:
    """Where the tokens of one forward pass stand; tensors on the model's device. T tokens, B
    sequences.

    position_ids:    int64 [T], position of each token in its sequence
    slot_mapping:    int64 [T], where its key and value go: page · page_size + offset; -1 stores
                     nothing
    block_table:     int32 [B, max_pages], page ids of each sequence
    query_start_loc: int32 [B + 1], the tokens of sequence b are query_start_loc[b] …
                     query_start_loc[b + 1] - 1
    seq_lens:        int32 [B], keys of each sequence once this pass has stored its own
    max_query_len:   most tokens of one sequence in this pass, or more. Tokens behind the last
                     sequence's are padding
    page_size:       tokens a page
    attention:       what runs this pass's attention
    mask:            which keys each token sees; a tree's only where every sequence has
                     Q = max_query_len tokens
    """

    position_ids: Tensor
    slot_mapping: Tensor
    block_table: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    max_query_len: int
    page_size: int
    attention: AttentionBackend
    mask: AttentionMask = CAUSAL

    @cached_property
    def plan(self) -> AttentionPlan:
        """The plan of this pass's attention, for all layers; it is made when the first of them
        asks."""
        return self.attention.plan(self)


@dataclass(frozen=True, eq=False)
class OutputRows:
    """The tokens of a pass whose hidden states are wanted. For the others a model's last layer
    computes keys and values alone.

    index:   places of the W tokens among all T, int64 [W] or a slice
    context: the context of these tokens alone; its sequences end with their keys
    """

    index: Tensor | slice
    context: ForwardContext

    @classmethod
    def last_tokens(cls, context: ForwardContext, index: Tensor) -> OutputRows:
        """The last token of each sequence of a pass. index: places of these among all tokens, int64
        [B]"""
        starts = torch.arange(len(index) + 1, dtype=torch.int32, device=index.device)
        alone = replace(
            context,
            position_ids=context.position_ids[index],
            slot_mapping=context.slot_mapping[index],
            query_start_loc=starts,
            max_query_len=1,
        )
        return cls(index, alone)


class AttentionForm(NamedTuple):
    """What one layer's attention is.

    scale:          factor on the dot products
    sliding_window: keys that a token sees, its own included; None: all
    sinks:          [num_heads], each head's score that takes part in the softmax beside those of
                    the keys, and adds no value (attention sinks, Xiao et al. 2023, arXiv
                    2309.17453, learned as gpt-oss has them)
    scales:         the scales of float8 caches
    rounding:       how the output's reader wants it rounded; None: it reads tensors
    """

    scale: float
    sliding_window: int | None = None
    sinks: Tensor | None = None
    scales: KVScales = UNSCALED
    rounding: Float8Scaling | None = None


class PassContext(Protocol):
    """The part of ForwardContext that the layers of a model read."""

    @property
    def position_ids(self) -> Tensor: ...

    @property
    def slot_mapping(self) -> Tensor: ...

    @property
    def plan(self) -> AttentionPlan: ...


class AttentionBackend(Protocol):
    """A way to compute attention over the paged cache."""

    def plan(self, context: ForwardContext) -> AttentionPlan:
        """The plan that the layers of one pass share.

        For a backend that runs in CUDA graphs, it is made of shapes, and of tensors on the device
        without
        waiting for them: a replay finds other numbers in the same tensors.
        """

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[AttentionPlan, AttentionPlan]:
        """Plans of two parts of one pass, none of which reads the other's keys. In each layer the
        leader is run, then the follower, right behind it: they may run at once."""


class AttentionPlan(Protocol):
    """How one pass runs. It has `run` itself, so that no plan meets a backend that did not make it.

    Layers may differ in heads and windows, and those of a target and its draft head run in one
    pass: what depends on them is made by the first layer that has them.
    """

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor | Float8Rows:
        """Grouped-query attention of one layer over the paged cache, which holds this pass's keys
        already.

        The keys of a sequence are in its pages in order; the last of them are the tokens of this
        pass, its queries. A token sees every key before this pass, and of this pass those that the
        context's mask names: its own and those before it, or its ancestors' in a tree. With a
        sliding window w it sees only keys whose position is less than w before its own; tokens of
        this pass and of a tree stand at their position_ids.

        query:                  [T, num_heads, head_dim], num_heads a multiple of num_kv_heads
        key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim], of any dtype
        output:                 contiguous memory for what is returned; None: new memory
        Returns [T, num_heads, head_dim] of query's dtype; zeros for a token that sees nothing,
        anything for those behind the last sequence's. Where the form has a rounding, and there is
        no `output`, a plan may return the tokens' rows rounded.
        """
