"""Owns the limits of mixed iterations: how many prompt tokens a decode iteration may carry, and how
many slots its CUDA graph has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

_FEWEST_MIXED_SLOTS = 8
"""Fewest slots of a captured mixed iteration: one with fewer would take as long."""


def num_graph_slots(highest_slot: int, max_batch_size: int) -> int:
    """Number of slots of the graph that runs a batch up to slot `highest_slot`: a power of two, or
    max_batch_size."""
    return min(1 << highest_slot.bit_length(), max_batch_size)


@dataclass(frozen=True)
class PiggybackLimits:
    """How many prompt tokens a step can compute in a decode iteration.

    max_chunks: most chunks; 0: none
    sizes:      numbers of tokens to which the chunks are padded, ascending; the last is the most
                that an iteration may carry; empty: there is no padding
    tile:       rows that a matrix product computes together; 0: it does not matter
    max_slots:  most slots of an iteration
    nodes_each: rows of each slot
    """

    max_chunks: int = 0
    sizes: tuple[int, ...] = ()
    tile: int = 0
    max_slots: int = 0
    nodes_each: int = 1

    def num_slots(self, highest_slot: int) -> int:
        """Slots of the captured mixed iteration for a batch up to slot `highest_slot`."""
        needed = num_graph_slots(highest_slot, self.max_slots)
        return min(max(needed, _FEWEST_MIXED_SLOTS), self.max_slots)

    def beside(self, highest_slot: int) -> PiggybackLimits:
        """These limits, with sizes such that the chunks and the decode rows up to slot
        `highest_slot` together fill whole tiles."""
        rest = self.num_slots(highest_slot) * self.nodes_each % self.tile if self.tile else 0
        return _shortened(self, rest) if rest else self

    def fills_tile(self, highest_slot: int) -> bool:
        """Whether the decode rows up to slot `highest_slot` fill a tile by themselves. Then prompt
        tokens cost their full time in a mixed iteration too."""
        return self.num_slots(highest_slot) * self.nodes_each >= self.tile

    def most_tokens(self, budget: int) -> int:
        """Most tokens of all chunks together whose padded size is within the budget; the budget
        itself where it is below the least size."""
        return max((size for size in self.sizes if size <= budget), default=budget)

    def nearest(self, num_tokens: float) -> int:
        """The size that is nearest to `num_tokens`. There must be a size."""
        return min(self.sizes, key=lambda size: abs(size - num_tokens))

    def sizes_within(self, max_tokens: int) -> tuple[int, ...]:
        """The sizes to which at most `max_tokens` tokens can be padded."""
        return tuple(
            size
            for size, smaller in zip(self.sizes, (0, *self.sizes), strict=False)
            if smaller < max_tokens
        )

    def size_for(self, num_tokens: int) -> int:
        """The size to which `num_tokens` tokens are padded."""
        return next((size for size in self.sizes if size >= num_tokens), num_tokens)

    def filled(self, num_waiting: int) -> int:
        """How many of `num_waiting` tokens to compute: all, or only as many as the size below where
        that is nearer than the size to which all would be padded."""
        above = self.size_for(num_waiting)
        below = max((size for size in self.sizes if size <= num_waiting), default=0)
        is_nearer_below = below > 0 and num_waiting - below < above - num_waiting
        return below if is_nearer_below else num_waiting


@cache  # called in every iteration, with few different arguments: one for each graph size
def _shortened(limits: PiggybackLimits, rest: int) -> PiggybackLimits:
    """`limits` with sizes that leave room for `rest` decode rows in their last tile."""
    sizes = [size - rest for size in limits.sizes if size - rest >= limits.tile // 2]
    return replace(limits, sizes=(*sizes, limits.sizes[-1]), tile=0)


NEVER_PIGGYBACK = PiggybackLimits()
