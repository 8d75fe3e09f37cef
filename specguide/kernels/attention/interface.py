"""Owns ForwardContext, which the layers of a pass share, and the interface of an attention
backend."""

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
    """Which of the last M keys of each of B sequences the Q tokens of a pass see. Every token sees
    all keys before these M.

    is_causal:      a token sees its own key and those before it
    most_tile_rows: maximum rows of a tile of a fast kernel in half precision, which may have to
                    read a mask besides the keys
    most_tile_keys: maximum keys in one step of such a kernel
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
        among the last M keys; negative for earlier keys"""

    def kernel_mask(self) -> KernelMask:
        """The mask as a kernel reads it."""


class CausalMask:
    """Each token follows the one before it; the last keys are those of this pass, M = Q."""

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
    """The last keys are nodes of a draft tree; the last Q of these nodes are the tokens of this
    pass.

    ancestor_mask: bool [B, Q, M], entry [b, i, j] says whether token i of the pass sees key j of
                   the last M
    position_ids:  int64 [B, M], positions of the nodes
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


class StateRows(NamedTuple):
    """The slots of a pass whose model keeps a state for each slot. B sequences.

    slots:    int64 [B], -1 for a sequence whose state is neither read nor written
    starts:   int64 [B], position of each sequence's first token; behind 0 the state is empty
    num_open: how many of a sequence's last tokens may still be rejected; None: all
    """

    slots: Tensor
    starts: Tensor
    num_open: int | None

    def select(self, sequences: slice) -> StateRows:
        """The rows of some sequences."""
        return self._replace(slots=self.slots[sequences], starts=self.starts[sequences])


@dataclass(frozen=True, eq=False)
class ForwardContext:
    """The tokens of one forward pass: their positions, their sequences and where their keys and
    values go. Tensors are on the model's device. T tokens, B sequences.

    position_ids:    int64 [T], position of each token in its sequence
    slot_mapping:    int64 [T], where its key and value go: page · page_size + offset; -1 stores
                     nothing
    block_table:     int32 [B, max_pages], page ids of each sequence
    query_start_loc: int32 [B + 1], the tokens of sequence b are query_start_loc[b] …
                     query_start_loc[b + 1] - 1
    seq_lens:        int32 [B], keys of each sequence once this pass has stored its own
    max_query_len:   an upper bound of the tokens that one sequence has in this pass. Tokens behind
                     those of the last sequence are padding
    page_size:       tokens per page
    attention:       the backend that runs this pass's attention
    mask:            which keys each token sees; a tree mask requires that every sequence has Q =
                     max_query_len tokens
    adapter_ids:     int32 [T], the LoRA adapter of each token, 0 for none; None: no token has one
    states:          the slots of the sequences; None: the model keeps no states of slots
    image_rows:      int64 [T], the row that holds the image vector of each token, -1 for a token of
                     text; None: all are text
    rotary_positions: int64 [T], or [3, T] in time, height and width: the positions by which the
                     target's queries and keys are rotated; None: position_ids
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
    adapter_ids: Tensor | None = None
    states: StateRows | None = None
    image_rows: Tensor | None = None
    rotary_positions: Tensor | None = None

    @cached_property
    def parts(self) -> list[tuple[slice, ForwardContext]]:
        """See PassContext."""
        return [(slice(0, len(self.position_ids)), self)]

    @cached_property
    def plan(self) -> AttentionPlan:
        """The plan of this pass's attention, which all layers share; it is made when the first
        layer asks for it."""
        return self.attention.plan(self)


@dataclass(frozen=True, eq=False)
class OutputRows:
    """The tokens of a pass whose hidden states are wanted. For all other tokens the model's last
    layer computes keys and values only.

    index:   places of the W tokens among all T, int64 [W] or a slice
    context: the context of these tokens alone; each of its sequences ends with the key of its last
             such token
    """

    index: Tensor | slice
    context: ForwardContext

    @classmethod
    def last_tokens(cls, context: ForwardContext, index: Tensor) -> OutputRows:
        """The last token of each sequence of a pass. index: places of these tokens among all
        tokens, int64 [B]"""
        starts = torch.arange(len(index) + 1, dtype=torch.int32, device=index.device)
        alone = replace(
            context,
            position_ids=context.position_ids[index],
            image_rows=None,
            rotary_positions=None,
            slot_mapping=context.slot_mapping[index],
            query_start_loc=starts,
            max_query_len=1,
        )
        return cls(index, alone)


class AttentionForm(NamedTuple):
    """What defines the attention of one layer.

    scale:          factor on the dot products
    sliding_window: number of keys that a token sees, its own included; None: all
    sinks:          [num_heads], a score for each head that takes part in the softmax beside the
                    scores of the keys and adds no value (attention sinks, Xiao et al. 2023, arXiv
                    2309.17453, learned as in gpt-oss)
    scales:         the scales of float8 caches
    rounding:       how the layer that reads the output wants it rounded to float8; None: it reads a
                    plain tensor
    softcap:        limit c of the scaled dot products s, which become c · tanh(s / c), as in
                    Gemma 2; None: no limit
    """

    scale: float
    sliding_window: int | None = None
    sinks: Tensor | None = None
    scales: KVScales = UNSCALED
    rounding: Float8Scaling | None = None
    softcap: float | None = None


class PassContext(Protocol):
    """The part of ForwardContext that the layers of a model read."""

    @property
    def position_ids(self) -> Tensor: ...

    @property
    def slot_mapping(self) -> Tensor: ...

    @property
    def adapter_ids(self) -> Tensor | None: ...

    @property
    def image_rows(self) -> Tensor | None: ...

    @property
    def rotary_positions(self) -> Tensor | None: ...

    @property
    def parts(self) -> list[tuple[slice, ForwardContext]]:
        """The tokens that are planned together, in order, each with its context."""

    @property
    def plan(self) -> AttentionPlan: ...


class AttentionBackend(Protocol):
    """A way to compute attention over the paged cache."""

    def plan(self, context: ForwardContext) -> AttentionPlan:
        """The plan that the layers of one pass share.

        A backend that runs in CUDA graphs may build it only from shapes and from tensors on the
        device, and must not wait for these: a replay finds other numbers in the same tensors.
        """

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[AttentionPlan, AttentionPlan]:
        """Plans of two parts of one pass, neither of which reads the other's keys. In each layer
        the leader runs first and the follower right behind it; the two may overlap."""


class AttentionPlan(Protocol):
    """How one pass runs. The plan has `run` itself, so it can never meet a backend that did not
    make it.

    Layers may differ in heads and windows, and a target and its draft head may run in one pass. So
    whatever depends on heads or windows is built by the first layer that needs it.
    """

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor | Float8Rows:
        """Grouped-query attention of one layer over the paged cache, which already holds the keys
        of this pass.

        The keys of a sequence lie in its pages in order; the last ones are those of this pass's
        tokens, which are the queries. A token sees every key before this pass, and of this pass the
        keys that the context's mask names: its own and earlier ones, or those of its ancestors in a
        tree. With a sliding window w it sees only keys whose position is less than w before its
        own; tokens of this pass and of a tree have the positions in position_ids.

        query:                  [T, num_heads, head_dim], num_heads a multiple of num_kv_heads
        key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim], of any dtype. In
                                latent attention the values are a view of the first value_dim
                                numbers of each key; else value_dim = head_dim
        output:                 contiguous memory for the result; None: new memory
        Returns [T, num_heads, value_dim] of query's dtype; zeros for a token that sees no key,
        arbitrary values for tokens behind the last sequence. If the form has a rounding and there
        is no `output`, a plan may return the tokens' rows rounded to float8.
        """


def empty_output(query: Tensor, value_cache: Tensor) -> Tensor:
    """Uninitialised memory for the result of a pass, [T, num_heads, value_dim]."""
    shape = *query.shape[:-1], value_cache.shape[-1]
    return torch.empty(shape, dtype=query.dtype, device=query.device)
