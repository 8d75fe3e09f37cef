"""Where the tokens of a forward pass stand, for tests: sequences in pages that are scattered over
the cache."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.draft_tree import DraftTree
from specguide.kernels.attention import CAUSAL, ForwardContext, TorchAttention, TreeMask
from specguide.models import ModelConfig

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


class Sequences:
    """A few sequences of at most `max_len` tokens, each with pages of its own, and how many tokens
    they have."""

    def __init__(self, num_sequences: int, max_len: int) -> None:
        max_pages = -(-max_len // PAGE_SIZE)
        self.num_pages = num_sequences * max_pages + 3
        order = torch.randperm(self.num_pages, generator=torch.Generator().manual_seed(0))
        self.block_table = order[: num_sequences * max_pages].view(num_sequences, max_pages).int()
        self.lengths = [0] * num_sequences

    def cache(self, config: ModelConfig, dtype: torch.dtype = torch.float32) -> KVCache:
        """A cache for all sequences, full of numbers that must not be read."""
        cache = KVCache.allocate(
            config.num_layers,
            self.num_pages,
            PAGE_SIZE,
            config.num_kv_heads,
            config.head_dim,
            dtype,
            "cpu",
        )
        for tensor in (*cache.keys, *cache.values):
            tensor.fill_(1e3)
        return cache

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
        )
