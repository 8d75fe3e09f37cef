"""Owns the Triton backend of paged attention: decode, verification of chains and trees, and
prefill, with all lengths on the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
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
from specguide.kernels.attention.triton_pairs import cells, unpacking
from specguide.kernels.attention.triton_rows import Sequences, Tree
from specguide.kernels.float8 import FLOAT8, Float8Rows
from specguide.kernels.triton.device import Order, num_multiprocessors, overlap, shared_memory

_MOST_LEADER_ROWS = 64
"""Maximum rows of a leader's tile, so that the follower's programs find room beside it."""

_LEAST_ROWS = 16
_LATENT_TILES = (225 << 10, 64, 64), (160 << 10, 64, 32), (0, 16, 32)
"""Rows of a tile and keys of a step in latent attention with half precision, by the least bytes of
shared memory: of Hopper, of the A100, and of smaller GPUs."""

_CROWD = 4
"""Programs per multiprocessor, of few rows each, from which small programs that overlap are
fastest."""

_MOST_DECODED = 64
"""Maximum tokens of a sequence in a decode pass. With more, as in a prompt, the split parts are so
large that combining them takes longer than a second program per multiprocessor saves."""


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


class Heads(NamedTuple):
    """The heads of a launch: their numbers, sizes and dtypes."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    dtype: torch.dtype
    cache_dtype: torch.dtype

    @property
    def is_half(self) -> bool:
        return self.dtype.itemsize == 2

    @property
    def is_latent(self) -> bool:
        """Whether values are the first dimensions of keys."""
        return self.value_dim < self.head_dim

    @property
    def group(self) -> int:
        """Number of heads that share a key head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True)
class Launch:
    """The shape of a launch.

    group:      heads per tile
    block_rows: rows per tile: query tokens · heads of a group
    block_keys: keys per step
    num_splits: programs over which the keys of a sequence are spread
    """

    group: int
    block_rows: int
    block_keys: int
    num_splits: int
    num_warps: int
    num_stages: int


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
        num_blocks, num_tiles = _num_tiles(context, launch.block_rows // launch.group)
        grid = (num_groups, num_tiles, launch.num_splits)
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
            MOST_SEQS=_most_seqs(num_seqs) if num_blocks > 1 and num_seqs > 1 else 0,
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


def _num_tiles(context: ForwardContext, block_tokens: int) -> tuple[int, int]:
    """Upper bounds of the blocks of tokens of one sequence, and of all sequences together; blocks
    are packed if each sequence may have several."""
    num_seqs = context.seq_lens.shape[0]
    num_blocks = triton.cdiv(context.max_query_len, block_tokens)
    num_packed = context.position_ids.shape[0] // block_tokens + num_seqs
    return num_blocks, num_packed if num_blocks > 1 and num_seqs > 1 else num_seqs * num_blocks


def _most_seqs(num_seqs: int) -> int:
    """The number of sequences for which a kernel is compiled: the next power of two."""
    return max(16, triton.next_power_of_2(num_seqs))


def choose_launch(
    context: ForwardContext, heads: Heads, device: torch.device, most_rows: int | None = None
) -> Launch:
    """The launch for a pass. It depends on shapes alone, so that a captured launch is right for
    every length that it will meet.

    most_rows: maximum rows of a tile in half precision; None: as the mask says
    """
    if heads.is_latent:
        return _latent_launch(context, heads, device)
    group = heads.group
    is_prompt = context.max_query_len > _MOST_DECODED
    most_rows = (most_rows or context.mask.most_tile_rows) if heads.is_half else 32
    wanted = max(_LEAST_ROWS, triton.next_power_of_2(context.max_query_len * group))
    block_rows = max(min(wanted, most_rows), triton.next_power_of_2(group))
    num_programs = _num_programs(context, block_rows, group, heads)
    num_processors = num_multiprocessors(device)
    if is_prompt and 2 * num_programs < num_processors and block_rows >= 2 * max(64, group):
        block_rows //= 2
        num_programs = _num_programs(context, block_rows, group, heads)
    is_small = heads.is_half and block_rows == 16 and heads.head_dim <= 128
    if is_small and context.mask.is_causal and num_programs > _CROWD * num_processors:
        num_warps, num_stages = (2, 2) if heads.cache_dtype == FLOAT8 else (1, 3)
        return Launch(group, block_rows, 32, 1, num_warps, num_stages)
    max_keys = context.block_table.shape[1] * context.page_size
    is_few = num_programs <= 2 * num_processors
    wanted_programs = num_processors if is_prompt else 2 * num_processors
    num_splits = min(wanted_programs // num_programs, triton.cdiv(max_keys, 64), 16)
    is_split_in_few = not is_prompt and 1 < num_splits <= 4
    if block_rows >= 128 or (heads.is_half and is_split_in_few):
        num_warps = 8
    else:
        num_warps = 4 if block_rows > 16 or is_few or not heads.is_half else 2
    block_keys, num_stages = _choose_step(context, heads, num_splits, num_warps)
    return Launch(group, block_rows, block_keys, max(1, num_splits), num_warps, num_stages)


def _latent_launch(context: ForwardContext, heads: Heads, device: torch.device) -> Launch:
    """The launch of latent attention: one program a multiprocessor, whose shared memory holds the
    queries and two steps of keys. A tile takes as many heads as it has rows for."""
    most_rows, block_keys = _latent_tile(device) if heads.is_half else (_LEAST_ROWS, 16)
    most = min(heads.group, most_rows)
    group = next(size for size in range(most, 0, -1) if heads.group % size == 0)
    wanted = max(_LEAST_ROWS, triton.next_power_of_2(context.max_query_len * group))
    block_rows = min(wanted, most_rows)
    num_programs = _num_programs(context, block_rows, group, heads)
    max_keys = context.block_table.shape[1] * context.page_size
    num_splits = min(num_multiprocessors(device) // num_programs, triton.cdiv(max_keys, 64), 16)
    num_warps = 8 if block_rows > 32 else 4
    return Launch(group, block_rows, block_keys, max(1, num_splits), num_warps, num_stages=2)


def _choose_step(
    context: ForwardContext, heads: Heads, num_splits: int, num_warps: int
) -> tuple[int, int]:
    """The number of keys in a step, and the number of steps in flight (pipeline stages)."""
    block_keys = context.mask.most_tile_keys
    is_chain = context.mask.is_causal and context.max_query_len <= _MOST_DECODED
    if not heads.is_half:
        step = 32, 2
    elif num_splits > 8:
        step = 32, 3
    elif heads.cache_dtype == FLOAT8 and is_chain and num_splits <= 4:
        step = 2 * block_keys, 3 if num_warps == 2 else 2
    else:
        step = block_keys, 3
    return step


def _latent_tile(device: torch.device) -> tuple[int, int]:
    """Maximum rows of a tile, and keys of a step, for which a GPU has the shared memory."""
    num_bytes = shared_memory(device)
    return next((rows, keys) for least, rows, keys in _LATENT_TILES if num_bytes >= least)


def _num_programs(context: ForwardContext, block_rows: int, group: int, heads: Heads) -> int:
    """The number of programs where keys are not split. group: heads of a tile"""
    return _num_tiles(context, block_rows // group)[1] * (heads.num_heads // group)
