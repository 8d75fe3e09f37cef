"""Owns the drafted tree of each slot."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SlotTrees:
    """Trees at fixed addresses. S slots, N nodes each, of which node 0 is the golden token; any
    first ones are a tree too.

    tokens:  int32 [S, N], -1 where there is no draft; node 0's is elsewhere
    parents: int64 [S, N], each before its children
    depths:  int64 [S, N]
    places:  int64 [S, N], where the grammar's walk has them, see `TreeExpansion`
    ancestor_mask:    bool [S, N, N], entry [s, i, j]: node j is i or on the path to it
    """

    tokens: Tensor
    parents: Tensor
    depths: Tensor
    places: Tensor
    ancestor_mask: Tensor

    @classmethod
    def empty(cls, num_slots: int, num_nodes: int, device: torch.device) -> SlotTrees:
        """Trees without drafts: every node is a child of the golden token."""

        def full(value: int, dtype: torch.dtype) -> Tensor:
            return torch.full((num_slots, num_nodes), value, dtype=dtype, device=device)

        depths = full(1, torch.int64)
        depths[:, 0] = 0
        ancestor_mask = (
            torch.eye(num_nodes, dtype=torch.bool, device=device).expand(num_slots, -1, -1).clone()
        )
        ancestor_mask[:, :, 0] = True
        return cls(
            full(-1, torch.int32), full(0, torch.int64), depths, full(0, torch.int64), ancestor_mask
        )

    def select(self, slots: slice | Tensor, num_nodes: int) -> SlotTrees:
        """The first nodes of those of B slots, in order; a slice's may be the same memory."""
        return SlotTrees(
            self.tokens[slots, :num_nodes],
            self.parents[slots, :num_nodes],
            self.depths[slots, :num_nodes],
            self.places[slots, :num_nodes],
            self.ancestor_mask[slots, :num_nodes, :num_nodes],
        )

    def store(self, trees: SlotTrees, slots: slice | Tensor, held: Tensor) -> None:
        """Write those of B slots, of fewer nodes perhaps; a slot that is held, bool [B], keeps the
        one that it has."""
        self.drop(slots, held)
        for field in fields(self):
            theirs = getattr(trees, field.name)
            mine = getattr(self, field.name)[(slice(None), *map(slice, theirs.shape[1:]))]
            mine[slots] = torch.where(held.view(-1, *[1] * (theirs.dim() - 1)), mine[slots], theirs)

    def drop(self, slots: slice | Tensor, held: Tensor) -> None:
        """No drafts for B slots, but a slot that is held, bool [B], keeps those that it has."""
        self.tokens[slots] = torch.where(held[:, None], self.tokens[slots], -1)

    def paths(self, depth: int) -> Tensor:
        """The drafts on the path to each node in order, int32 [S, N, depth], -1 behind."""
        on_path = self.ancestor_mask[:, :, 1:]
        depths = (self.depths[:, None, 1:] - 1).expand_as(on_path)
        tokens = self.tokens[:, None, 1:].expand_as(on_path)
        paths = torch.full(
            (*on_path.shape[:2], depth + 1), -1, dtype=torch.int32, device=tokens.device
        )
        paths.scatter_(2, depths.masked_fill(~on_path, depth), tokens.masked_fill(~on_path, -1))
        return paths[:, :, :depth]

    def clear(self, slots: Tensor) -> None:
        """Forget the drafts of `slots` int64 [B]."""
        self.tokens.index_fill_(0, slots, -1)
