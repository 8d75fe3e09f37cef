"""Owns what a step can compute of prompts beside a decode iteration, and how many slots its graphs
have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

_FEWEST_MIXED_SLOTS = 8
"""Fewest slots of a captured iteration with chunks of prompts beside: fewer would cost as much."""


def num_graph_slots(highest_slot: int, max_batch_size: int) -> int:
    """Slots of the graph that runs a batch, 0 and on: a power of two of them, or all."""
    return min(1 << highest_slot.bit_length(), max_batch_size)


@dataclass(frozen=True)
class PiggybackLimits:
    """What a step can compute beside a decode iteration.

    max_chunks: most chunks; 0: none
    sizes:      numbers of tokens to which they are filled up, ascending, and the last the most that
                there may be; empty: to none
    tile:       rows that products compute together; 0: any number
    max_slots:  of an iteration
    nodes_each: rows of a slot
    """

    max_chunks: int = 0
    sizes: tuple[int, ...] = ()
    tile: int = 0
    max_slots: int = 0
    nodes_each: int = 1

    def num_slots(self, highest_slot: int) -> int:
        """Slots of the captured iteration in which there are some up to this one."""
        needed = num_graph_slots(highest_slot, self.max_slots)
        return min(max(needed, _FEWEST_MIXED_SLOTS), self.max_slots)

    def beside(self, highest_slot: int) -> PiggybackLimits:
        """With sizes that fill whole tiles together with the rows of the slots up to this one."""
        rest = self.num_slots(highest_slot) * self.nodes_each % self.tile if self.tile else 0
        return _shortened(self, rest) if rest else self

    def fills_tile(self, highest_slot: int) -> bool:
        """The rows of the slots up to this one are as many as are computed together; further ones
        take their time wherever they ride."""
        return self.num_slots(highest_slot) * self.nodes_each >= self.tile

    def most_tokens(self, budget: int) -> int:
        """Most tokens of all chunks together, such that the size to which they are filled up is
        within the budget, unless the budget is below the least size."""
        return max((size for size in self.sizes if size <= budget), default=budget)

    def nearest(self, num_tokens: float) -> int:
        """The size that is nearest to so many tokens; there must be one."""
        return min(self.sizes, key=lambda size: abs(size - num_tokens))

    def sizes_within(self, max_tokens: int) -> tuple[int, ...]:
        """Sizes that come up where there are at most so many tokens."""
        return tuple(
            size
            for size, smaller in zip(self.sizes, (0, *self.sizes), strict=False)
            if smaller < max_tokens
        )

    def size_for(self, num_tokens: int) -> int:
        """The size to which so many tokens are filled up."""
        return next((size for size in self.sizes if size >= num_tokens), num_tokens)

    def filled(self, num_waiting: int) -> int:
        """The number of tokens to compute where so many wait: all, or fewer where the size below is
        nearer than the one to which all would be filled up."""
        above = self.size_for(num_waiting)
        below = max((size for size in self.sizes if size <= num_waiting), default=0)
        is_nearer_below = below > 0 and num_waiting - below < above - num_waiting
        return below if is_nearer_below else num_waiting


@cache  # asked in every iteration, with as many answers as there are numbers of graph slots
def _shortened(limits: PiggybackLimits, rest: int) -> PiggybackLimits:
    """With sizes that leave room for so many rows in their last tile."""
    sizes = [size - rest for size in limits.sizes if size - rest >= limits.tile // 2]
    return replace(limits, sizes=(*sizes, limits.sizes[-1]), tile=0)


NEVER_PIGGYBACK = PiggybackLimits()
