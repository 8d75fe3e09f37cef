"""Owns the memory of the paged KV cache, and how positions map to places in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specguide.cache.states import SlotStates


class KeyShape(NamedTuple):
    """What layers that are alike store for each token: number of layers, number of key heads on
    this rank, and size of a head. has_values: False: values are parts of the keys, as in latent
    attention"""

    num_layers: int
    num_heads: int
    head_dim: int
    has_values: bool = True

    @property
    def num_numbers(self) -> int:
        """How many numbers that are."""
        return (1 + self.has_values) * self.num_layers * self.num_heads * self.head_dim


@dataclass(frozen=True)
class CacheShape:
    """What a model stores for each token.

    kinds:  the kinds of layers, by what they store
    places: for each layer that reads keys, its kind and its number among the layers of this kind;
            layers that read the same keys have the same place
    """

    kinds: tuple[KeyShape, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def alike(cls, keys: KeyShape) -> CacheShape:
        """The shape for layers all of which store the same."""
        return cls((keys,), tuple((0, layer) for layer in range(keys.num_layers)))

    @classmethod
    def of_layers(cls, layers: Sequence[KeyShape], sources: Sequence[int]) -> CacheShape:
        """The shape for layers that differ. layers: what each of them alone would store; sources:
        the layer whose keys each of them reads, at most itself"""
        counts = dict[KeyShape, int]()
        places = list[tuple[int, int]]()
        for layer, (keys, source) in enumerate(zip(layers, sources, strict=True)):
            if source < layer:
                places.append(places[source])
                continue
            number = counts.get(keys, 0)
            counts[keys] = number + 1
            places.append((list(counts).index(keys), number))
        kinds = tuple(keys._replace(num_layers=count) for keys, count in counts.items())
        return cls(kinds, tuple(places))

    @property
    def num_numbers(self) -> int:
        """How many numbers that are."""
        return sum(keys.num_numbers for keys in self.kinds)


@dataclass(frozen=True, eq=False)
class KVCache:
    """Keys and values of all layers.

    memories: of each kind of layers, [2, num_layers, num_pages, page_size, num_kv_heads, head_dim],
              keys first; or [1, num_layers, …] where keys are all that a layer stores
    places:   see CacheShape
    states:   the memory of layers that store no keys; None: there are none
    """

    memories: tuple[Tensor, ...]
    places: tuple[tuple[int, int], ...]
    states: SlotStates | None = None

    @classmethod
    def allocate(
        cls,
        keys: CacheShape | KeyShape,
        num_pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> KVCache:
        """Zeroed memory. On a CPU, the system provides each page only when the first token is
        written there, so that an engine starts at once."""
        shape = CacheShape.alike(keys) if isinstance(keys, KeyShape) else keys
        memories = (_memory(kind, num_pages, page_size, dtype, device) for kind in shape.kinds)
        return cls(tuple(memories), shape.places)

    @cached_property
    def keys(self) -> tuple[Tensor, ...]:
        """The keys that each layer reads, [num_pages, page_size, num_kv_heads, head_dim]."""
        return tuple(self.memories[kind][0, layer] for kind, layer in self.places)

    @cached_property
    def values(self) -> tuple[Tensor, ...]:
        """The values that each layer reads, shaped as `keys`; the keys themselves if there are no
        values apart."""
        return tuple(self.memories[kind][-1, layer] for kind, layer in self.places)

    @property
    def num_layers(self) -> int:
        """Number of layers that read keys."""
        return len(self.places)

    @property
    def num_pages(self) -> int:
        """Pages of each layer."""
        return self.memories[0].shape[2]

    @property
    def page_bytes(self) -> int:
        """Bytes that one page takes over all layers."""
        return sum(memory.nbytes for memory in self.memories) // self.num_pages

    def free(self) -> None:
        """Give GPU memory back at once, even if others still hold this object; nobody may use it
        afterwards. On a CPU, the memory is freed with the last reference."""
        if self.states is not None:
            self.states.free()
        for memory in self.memories:
            if memory.is_cuda:
                memory.untyped_storage().resize_(0)

    def read_pages(self, pages: Sequence[int]) -> Tensor:
        """Copies n pages to the host: uint8 [n · page_bytes], laid out as one of `memories` with n
        pages after the other. Waits for the copy."""
        index = torch.tensor(pages, device=self.memories[0].device)
        copies = [memory.index_select(2, index).cpu().reshape(-1) for memory in self._bytes]
        return copies[0] if len(copies) == 1 else torch.cat(copies)

    def write_pages(self, pages: Sequence[int], contents: Tensor) -> None:
        """Fill pages with the result of `read_pages` of this or another cache of the same
        layout."""
        index = torch.tensor(pages, device=self.memories[0].device)
        shapes = [(*it.shape[:2], len(pages), *it.shape[3:]) for it in self._bytes]
        parts = contents.split([math.prod(shape) for shape in shapes])
        for memory, shape, part in zip(self._bytes, shapes, parts, strict=True):
            memory.index_copy_(2, index, part.view(shape).to(memory.device))

    @property
    def _bytes(self) -> list[Tensor]:
        return [memory.view(torch.uint8) for memory in self.memories]


def _memory(
    keys: KeyShape,
    num_pages: int,
    page_size: int,
    dtype: torch.dtype,
    device: torch.device | str,
) -> Tensor:
    """Zeroed memory for layers that are alike, see KVCache."""
    kinds, of_slot = 1 + keys.has_values, (keys.num_heads, keys.head_dim)
    shape = (kinds, keys.num_layers, num_pages, page_size, *of_slot)
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    memory = np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)
    return torch.from_numpy(memory).view(dtype).view(shape)


def slot_mapping(
    block_table: Tensor, sequence_ids: Tensor, position_ids: Tensor, page_size: int
) -> Tensor:
    """Cache slot (page · page_size + offset) of each token; -1, store nothing, for padding.

    block_table:  int32 [B, P], page ids of each sequence; entries past its pages are negative
    sequence_ids: int64 [T], the sequence of each token, 0 ≤ id < B
    position_ids: int64 [T], index of each token among its sequence's keys, < P · page_size;
                  negative for padding
    Returns int64 [T]. Runs on the tensors' device without a host sync.
    """
    index = position_ids.clamp(min=0)
    page = block_table[sequence_ids, index // page_size].to(torch.int64)
    slot = page * page_size + index % page_size
    return slot.masked_fill((position_ids < 0) | (page < 0), -1)


def place_nodes(
    tokens: Tensor,
    start: Tensor,
    block_table: Tensor,
    page_size: int,
    offset: int = 0,
    depths: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Inputs of a pass over the last Q of M nodes of each of B requests. The keys of the M nodes
    are stored one after the other from position `start` + `offset` on.

    tokens:      int32 [B, Q], -1 for none
    start:       int64 [B]
    block_table: int32 [B, P], -1 where there is no page
    depths:      int64 [B, M] or [M], each node's position less `start` + `offset`; None: M = Q, and
                 each node follows the one before
    Returns input_ids int64 [B · Q], 0 where there is no token, position_ids int64 [B · Q],
    slot_mapping int64 [B · Q] with -1 where there is no page, seq_lens int32 [B], and, with depths,
    the positions of all M nodes, int64 [B, M].
    """
    num_requests, num_own = tokens.shape
    num_nodes = num_own if depths is None else depths.shape[-1]
    nodes = torch.arange(num_nodes, device=start.device)
    first = start[:, None] + offset
    positions = first + (nodes if depths is None else depths)
    places = first + nodes[num_nodes - num_own :]
    sequence_ids = torch.arange(num_requests, device=start.device).repeat_interleave(num_own)
    return (
        tokens.clamp(min=0).long().flatten(),
        positions[:, num_nodes - num_own :].flatten(),
        slot_mapping(block_table, sequence_ids, places.flatten(), page_size),
        (first[:, 0] + num_nodes).int(),
        None if depths is None else positions,
    )


def place_prompts(
    bounds: Tensor, ends: Tensor, block_table: Tensor, page_size: int, num_tokens: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs of a pass over T tokens: the chunks of B prompts, then padding, if there is any.

    bounds:      int64 [B + 1], the tokens of chunk b are bounds[b] … bounds[b + 1] - 1
    ends:        int64 [B], position after each chunk's last token
    block_table: int32 [B, P], -1 where there is no page
    Returns position_ids int64 [T], 0 for padding; slot_mapping int64 [T], -1 for padding and where
    there is no page; and `bounds` and `ends` as int32.
    """
    index = torch.arange(num_tokens, device=ends.device)
    is_token = index < bounds[-1]
    sequence_ids = torch.searchsorted(bounds[1:], index, right=True).clamp(max=len(ends) - 1)
    position_ids = torch.where(is_token, index + (ends - bounds[1:])[sequence_ids], 0)
    mapping = slot_mapping(block_table, sequence_ids, position_ids, page_size)
    return position_ids, torch.where(is_token, mapping, -1), bounds.int(), ends.int()


def move_keys(memory: Tensor, nodes: Tensor, start: Tensor, block_table: Tensor) -> None:
    """Copy the keys and values of the accepted nodes of trees, in all layers, to the positions that
    they have as a chain.

    memory:      one of KVCache.memories, written in place
    nodes:       int64 [B, D], the accepted nodes, ascending; node n is at `start` + n, and the d-th
                 accepted one moves to `start` + 1 + d. -1 past the last one
    start:       int64 [B]
    block_table: int32 [B, P], -1 where there is no page
    """
    page_size, num_nodes = memory.shape[3], nodes.shape[1]
    sequence_ids = torch.arange(len(nodes), device=nodes.device).repeat_interleave(num_nodes)
    steps = torch.arange(1, num_nodes + 1, device=nodes.device).expand_as(nodes)
    sources, destinations = (
        slot_mapping(block_table, sequence_ids, (start[:, None] + places).flatten(), page_size)
        for places in (nodes.clamp(min=0), steps)
    )
    is_moved = (nodes.flatten() >= 0) & (sources >= 0) & (destinations >= 0)
    slots = memory.flatten(2, 3)
    slots[:, :, destinations[is_moved]] = slots[:, :, sources[is_moved]]
