"""Owns ForwardContext, what the layers of a pass share, and what an attention backend is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, eq=False)
class TreeKeys:
    """The last M keys of each of B sequences, where they are nodes of a draft tree; the last Q are
    this pass's own.

    sees:         bool [B, Q, M], entry [b, i, j] says that token i of the pass sees key j of these
    position_ids: int64 [B, M], where the nodes stand
    """

    sees: Tensor
    position_ids: Tensor


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
    tree:            given where every sequence has Q = max_query_len tokens, nodes of a draft tree;
                     None: a chain
    """

    position_ids: Tensor
    slot_mapping: Tensor
    block_table: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    max_query_len: int
    page_size: int
    attention: AttentionBackend
    tree: TreeKeys | None = None

    @cached_property
    def plan(self) -> AttentionPlan:
        """Of this pass's attention, for all layers; made when the first of them asks."""
        return self.attention.plan(self)


class PassContext(Protocol):
    """What the layers of a model read of a pass: fields of ForwardContext."""

    @property
    def position_ids(self) -> Tensor: ...

    @property
    def slot_mapping(self) -> Tensor: ...

    @property
    def plan(self) -> AttentionPlan: ...


class AttentionBackend(Protocol):
    """A way to compute attention over the paged cache."""

    def plan(self, context: ForwardContext) -> AttentionPlan:
        """Whatever the layers of one pass share.

        For a backend that runs in CUDA graphs, made of shapes, and of tensors on the device without
        waiting for them: a replay finds other numbers in the same tensors.
        """


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
        *,
        scale: float,
        sliding_window: int | None = None,
    ) -> Tensor:
        """Grouped-query attention of one layer over the paged cache, which holds this pass's keys
        already.

        The keys of a sequence are in its pages in order; the last of them are the tokens of this
        pass, its queries. A token sees every key before this pass, and of this pass itself and the
        tokens before it. Of the keys of a `tree` it sees those that its row of the mask names, and
        all before them. With a sliding window w it sees only keys whose position is less than w
        before its own; tokens of this pass and of a tree stand at their position_ids.

        query:                  [T, num_heads, head_dim], num_heads a multiple of num_kv_heads
        key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim]
        scale:                  factor on the dot products
        Returns [T, num_heads, head_dim] of query's dtype; zeros for a token that sees nothing,
        anything for those behind the last sequence's.
        """
