"""Where the tokens of a forward pass stand, for tests: sequences in pages that are scattered over
the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specguide.cache import KVCache, SlotStates
from specguide.drafts.tree import DraftTree
from specguide.kernels.attention import (
    CAUSAL,
    ForwardContext,
    StateRows,
    TorchAttention,
    TreeMask,
)
from specguide.models import ModelConfig
from specguide.models.cache_shape import cache_shape
from specguide.parallel import ONE_RANK, Ranks

PAGE_SIZE = 4


def tree_mask(tree: DraftTree, seq_lens: list[int], num_own: int | None = None) -> TreeMask:
    """A draft tree as the last keys of sequences; the pass has the last `num_own` of its nodes, or
    all."""
    positions = torch.tensor(seq_lens)[:, None] - tree.num_nodes + torch.tensor(tree.depths)
    nodes = range(tree.num_nodes)
    ancestors = torch.tensor([[other in tree.path(node) for other in nodes] for node in nodes])[
        -(num_own or len(nodes)) :
    ]
    return TreeMask(ancestors.expand(len(seq_lens), -1, -1).contiguous(), positions)


def scattered_pages(
    lens: Sequence[int], page_size: int, spare_pages: int, random: torch.Generator
) -> tuple[Tensor, int]:
    """A block table [B, max_pages] of sequences so long, with columns to spare, and the number of
    the cache's pages: some belong to none."""
    num_pages = [-(-length // page_size) for length in lens]
    order = torch.randperm(sum(num_pages) + 3, generator=random).to(torch.int32)
    table = torch.full((len(lens), max(num_pages) + spare_pages), -1, dtype=torch.int32)
    for seq, pages in enumerate(order[: sum(num_pages)].split(num_pages)):
        table[seq, : len(pages)] = pages
    return table, len(order)


def pass_context(
    table: Tensor,
    lens: Sequence[int],
    query_lens: Sequence[int],
    page_size: int,
    tree: DraftTree | None = None,
) -> ForwardContext:
    """A pass of the last `query_lens` tokens of sequences, or of nodes of a tree; stores
    nothing."""
    depths = [tree.depths if tree else range(query) for query in query_lens]
    positions = [
        length - len(own) + depth
        for length, query, own in zip(lens, query_lens, depths, strict=True)
        for depth in own[-query:]
    ]
    return ForwardContext(
        position_ids=torch.tensor(positions, dtype=torch.int64),
        slot_mapping=torch.full((sum(query_lens),), -1),
        block_table=table,
        query_start_loc=torch.tensor([0, *query_lens]).cumsum(0).to(torch.int32),
        seq_lens=torch.tensor(lens, dtype=torch.int32),
        max_query_len=max(query_lens),
        page_size=page_size,
        attention=TorchAttention(),
        mask=tree_mask(tree, list(lens), max(query_lens)) if tree else CAUSAL,
    )


class Sequences:
    """A few sequences of at most `max_len` tokens, each with pages of its own, and how many tokens
    they have."""

    def __init__(self, num_sequences: int, max_len: int) -> None:
        max_pages = -(-max_len // PAGE_SIZE)
        self.num_pages = num_sequences * max_pages + 3
        order = torch.randperm(self.num_pages, generator=torch.Generator().manual_seed(0))
        self.block_table = order[: num_sequences * max_pages].view(num_sequences, max_pages).int()
        self.lengths = [0] * num_sequences

    def cache(
        self,
        config: ModelConfig,
        dtype: torch.dtype = torch.float32,
        ranks: Ranks = ONE_RANK,
    ) -> KVCache:
        """A cache for all sequences, full of numbers that must not be read."""
        cache = KVCache.allocate(
            cache_shape(config, ranks), self.num_pages, PAGE_SIZE, dtype, "cpu"
        )
        for tensor in (*cache.keys, *cache.values):
            tensor.fill_(1e3)
        return replace(cache, states=self._states(config, dtype))

    def _states(self, config: ModelConfig, dtype: torch.dtype) -> SlotStates | None:
        """States full of numbers that must not be read; None for a model without."""
        if config.linear is None:
            return None
        shape = config.linear.state(len(config.linear_layers))
        num_slots = len(self.lengths)
        states = SlotStates.allocate(shape, num_slots, 2 * PAGE_SIZE, dtype, "cpu")
        for tensor in (tensor for layer in states.layers for tensor in layer):
            tensor.fill_(1e3)
        return states

    def extend(self, counts: list[int]) -> ForwardContext:
        """The next `counts[b]` tokens of each sequence."""
        positions = [
            torch.arange(length, length + count)
            for length, count in zip(self.lengths, counts, strict=True)
        ]
        context = self._context(positions, positions, counts, None)
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        return context

    def tree(self, tree: DraftTree) -> ForwardContext:
        """A draft tree after each sequence's tokens; the sequences do not grow."""
        positions = [length + torch.tensor(tree.depths) for length in self.lengths]
        places = [torch.arange(length, length + tree.num_nodes) for length in self.lengths]
        return self._context(positions, places, [tree.num_nodes] * len(self.lengths), tree)

    def _context(
        self,
        positions: list[Tensor],
        places: list[Tensor],
        counts: list[int],
        tree: DraftTree | None,
    ) -> ForwardContext:
        lens = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        slots = [
            self.block_table[seq][place // PAGE_SIZE].long() * PAGE_SIZE + place % PAGE_SIZE
            for seq, place in enumerate(places)
        ]
        return ForwardContext(
            position_ids=torch.cat(positions),
            slot_mapping=torch.cat(slots),
            block_table=self.block_table,
            query_start_loc=torch.tensor([0, *torch.tensor(counts).cumsum(0)], dtype=torch.int32),
            seq_lens=torch.tensor(lens, dtype=torch.int32),
            max_query_len=max(counts),
            page_size=PAGE_SIZE,
            attention=TorchAttention(),
            mask=CAUSAL if tree is None else tree_mask(tree, lens),
            states=StateRows(
                torch.arange(len(lens)),
                torch.tensor(self.lengths),
                num_open=1 if tree is None else None,
            ),
        )
