"""Owns the shapes with which the Triton attention is launched, chosen from those of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton

from specguide.kernels.attention.interface import ForwardContext
from specguide.kernels.float8 import FLOAT8
from specguide.kernels.triton.device import num_multiprocessors, shared_memory

_LEAST_ROWS = 16
_LATENT_TILES = (225 << 10, 64, 64), (160 << 10, 64, 32), (0, 16, 32)
"""Rows of a tile and keys of a step in latent attention with half precision, by the least bytes of
shared memory: of Hopper, of the A100, and of smaller GPUs."""

_WIDE_TILES = (225 << 10, 64, 32), (160 << 10, 32, 16), (0, 16, 16)
"""The same for heads that are wider than usual, whose values are apart from their keys."""

_MOST_USUAL_DIM = 256

_CROWD = 4
"""Programs per multiprocessor, of few rows each, from which small programs that overlap are
fastest."""

_MOST_DECODED = 64
"""Maximum tokens of a sequence in a decode pass. With more, as in a prompt, the split parts are so
large that combining them takes longer than a second program per multiprocessor saves."""


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
    def is_large(self) -> bool:
        """Whether tiles of the usual sizes would not fit into shared memory."""
        return self.is_latent or self.head_dim > _MOST_USUAL_DIM

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


def num_tiles(context: ForwardContext, block_tokens: int) -> tuple[int, int]:
    """Upper bounds of the blocks of tokens of one sequence, and of all sequences together; blocks
    are packed if each sequence may have several."""
    num_seqs = context.seq_lens.shape[0]
    num_blocks = triton.cdiv(context.max_query_len, block_tokens)
    num_packed = context.position_ids.shape[0] // block_tokens + num_seqs
    return num_blocks, num_packed if num_blocks > 1 and num_seqs > 1 else num_seqs * num_blocks


def most_seqs(num_seqs: int) -> int:
    """The number of sequences for which a kernel is compiled: the next power of two."""
    return max(16, triton.next_power_of_2(num_seqs))


def choose_launch(
    context: ForwardContext, heads: Heads, device: torch.device, most_rows: int | None = None
) -> Launch:
    """The launch for a pass. It depends on shapes alone, so that a captured launch is right for
    every length that it will meet.

    most_rows: maximum rows of a tile in half precision; None: as the mask says
    """
    if heads.is_large:
        return _large_launch(context, heads, device)
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


def _large_launch(context: ForwardContext, heads: Heads, device: torch.device) -> Launch:
    """The launch for large heads: one program a multiprocessor, whose shared memory holds the
    queries and two steps of keys. A tile takes as many heads as it has rows for."""
    most_rows, block_keys = _large_tile(heads, device) if heads.is_half else (_LEAST_ROWS, 16)
    most = min(heads.group, most_rows)
    group = next(size for size in range(most, 0, -1) if heads.group % size == 0)
    wanted = max(_LEAST_ROWS, triton.next_power_of_2(context.max_query_len * group))
    block_rows = min(wanted, most_rows)
    num_programs = _num_programs(context, block_rows, group, heads)
    max_keys = context.block_table.shape[1] * context.page_size
    num_splits = min(num_multiprocessors(device) // num_programs, triton.cdiv(max_keys, 64), 16)
    num_warps = 8 if block_rows > 32 else 4
    num_stages = 2 if heads.is_half or heads.is_latent else 1
    return Launch(group, block_rows, block_keys, max(1, num_splits), num_warps, num_stages)


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


def _large_tile(heads: Heads, device: torch.device) -> tuple[int, int]:
    """Maximum rows of a tile, and keys of a step, for which a GPU has the shared memory."""
    num_bytes = shared_memory(device)
    tiles = _LATENT_TILES if heads.is_latent else _WIDE_TILES
    return next((rows, keys) for least, rows, keys in tiles if num_bytes >= least)


def _num_programs(context: ForwardContext, block_rows: int, group: int, heads: Heads) -> int:
    """The number of programs where keys are not split. group: heads of a tile"""
    return num_tiles(context, block_rows // group)[1] * (heads.num_heads // group)
