"""Owns the Triton backend of paged attention: decode, verification of chains and trees, and
prefill, with all lengths on the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import triton
from torch import Tensor

from specguide.kernels.attention.interface import (
    AttentionForm,
    ForwardContext,
    KernelMask,
    empty_output,
)
from specguide.kernels.attention.triton_combine import (
    Parts,
    can_round,
    combine,
    combine_and_round,
    empty_parts,
)
from specguide.kernels.attention.triton_kernels import (
    Cache,
    Queries,
    attention_kernel,
)
from specguide.kernels.attention.triton_launch import (
    Heads,
    Launch,
    choose_launch,
    most_seqs,
    num_tiles,
)
from specguide.kernels.attention.triton_pairs import cells, unpacking
from specguide.kernels.attention.triton_rows import Sequences, Tree
from specguide.kernels.float8 import Float8Rows
from specguide.kernels.triton.device import Order, overlap

_MOST_LEADER_ROWS = 64
"""Maximum rows of a leader's tile, so that the follower's programs find room beside it."""


class TritonAttention:
    """Attention on a GPU: one kernel for all passes, and a second one if keys are split."""

    def plan(self, context: ForwardContext) -> TritonPlan:
        return TritonPlan(context, context.mask.kernel_mask())

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[TritonPlan, TritonPlan]:
        """See AttentionBackend.pair. Both run on one stream: to fork and join a second one in each
        layer would take longer than it saves."""
        leads, follows = self.plan(leader), self.plan(follower)
        return replace(leads, order=Order.LEADS), replace(follows, order=Order.FOLLOWS)


@dataclass(frozen=True, eq=False)
class TritonPlan:
    """What all layers of a pass launch with.

    mask:     the context's mask, in the form that the kernel reads
    order:    place in a pair: of the last kernel for a leader, of the first for a follower
    """

    context: ForwardContext
    mask: KernelMask
    order: Order = Order.ALONE
    launches: dict[Heads, Launch] = field(default_factory=dict)

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor | Float8Rows:
        launch = self._launch(query, key_cache, value_cache)
        value_dim = value_cache.shape[-1]
        table = self.context.block_table
        cache = Cache(
            *(cells(key_cache), cells(value_cache), table, table.stride(0)), form.scales.value
        )
        parts = empty_parts(query, value_dim, launch.num_splits) if launch.num_splits > 1 else None
        rounding = form.rounding if output is None else None
        if parts is not None and rounding is not None and can_round(parts, rounding):
            self._attend(query, cache, parts, launch, form)
            return combine_and_round(parts, query, rounding)
        if output is None:
            output = empty_output(query, value_cache)
        self._attend(query, cache, parts or Parts(output, None), launch, form)
        if parts is not None:
            combine(parts, output, Order.LEADS if self._is_leader else Order.ALONE)
        return output

    @property
    def _is_leader(self) -> bool:
        return self.order == Order.LEADS

    def _launch(self, query: Tensor, key_cache: Tensor, value_cache: Tensor) -> Launch:
        num_heads, head_dim = query.shape[1:]
        num_kv_heads, value_dim = value_cache.shape[2:]
        heads = Heads(num_heads, num_kv_heads, head_dim, value_dim, query.dtype, key_cache.dtype)
        if heads not in self.launches:
            most_rows = _MOST_LEADER_ROWS if self._is_leader else None
            self.launches[heads] = choose_launch(self.context, heads, query.device, most_rows)
        return self.launches[heads]

    def _attend(
        self, query: Tensor, cache: Cache, parts: Parts, launch: Launch, form: AttentionForm
    ) -> None:
        """Write each split's attention and its sum of exponentials to `parts`."""
        context = self.context
        ancestor_mask, tree_positions, num_tree_keys = self.mask
        page_size, num_kv_heads = cache.key_cache.shape[1:3]
        head_dim, value_dim = query.shape[2], parts.output.shape[-1]
        num_groups = query.shape[1] // launch.group
        num_seqs = context.seq_lens.shape[0]
        leads_later = self._is_leader and launch.num_splits > 1
        scale, softcap = _in_base_2(form)
        num_blocks, num_programs = num_tiles(context, launch.block_rows // launch.group)
        grid = (num_groups, num_programs, launch.num_splits)
        attention_kernel[grid](
            Queries(query, query.stride(0), query.stride(1)),
            cache,
            Sequences(context.query_start_loc, context.seq_lens, context.position_ids),
            None if ancestor_mask is None else Tree(ancestor_mask, tree_positions),
            form.sinks,
            parts,
            scale,
            softcap,
            num_seqs,
            num_blocks,
            launch.num_splits,
            num_tree_keys,
            form.sliding_window,
            NUM_KV_HEADS=num_kv_heads,
            NUM_GROUPS=num_groups // num_kv_heads,
            GROUP=launch.group,
            HEAD_DIM=head_dim,
            VALUE_DIM=value_dim,
            BLOCK_DIM=_block(value_dim),
            BLOCK_REST=_block(head_dim - value_dim) if value_dim < head_dim else 0,
            PAGE_SIZE=page_size,
            ROWS=launch.block_rows,
            KEYS=launch.block_keys,
            MOST_SEQS=most_seqs(num_seqs) if num_blocks > 1 and num_seqs > 1 else 0,
            HAS_SEEN=num_blocks > 1 and ancestor_mask is None and form.sliding_window is None,
            UNPACK=unpacking(query.device),
            ORDER=int(Order.ALONE if leads_later else self.order),
            num_warps=launch.num_warps,
            num_stages=launch.num_stages,
            **overlap(query.device),
        )


def _in_base_2(form: AttentionForm) -> tuple[float, float | None]:
    """The factor on dot products of queries with the cache's numbers, and the limit of the scores,
    both as the kernel takes them: see `_scaled`."""
    scale = form.scale * form.scales.key * math.log2(math.e)
    if form.softcap is None:
        return scale, None
    return 2 * scale / form.softcap, form.softcap * math.log2(math.e)


def _block(num_dims: int) -> int:
    """The number of dimensions that a tile has room for."""
    return max(32, triton.next_power_of_2(num_dims))
