"""Owns the drafted tree of each slot."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SlotTrees:
    """Trees at fixed addresses. S slots, N nodes each; node 0 is the golden token. The first n
    nodes form a tree too, for any n.

    tokens:  int32 [S, N], -1 where there is no draft; the golden token is not stored here
    parents: int64 [S, N], each parent comes before its children
    depths:  int64 [S, N], distance from the golden token
    places:  int64 [S, N], the nodes' places in the grammar's walk, see `TreeExpansion`
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
        """The first nodes of the trees of B slots, in the order of `slots`; with a slice, the
        result may share memory with these trees."""
        return SlotTrees(
            self.tokens[slots, :num_nodes],
            self.parents[slots, :num_nodes],
            self.depths[slots, :num_nodes],
            self.places[slots, :num_nodes],
            self.ancestor_mask[slots, :num_nodes, :num_nodes],
        )

    def store(self, trees: SlotTrees, slots: slice | Tensor, held: Tensor) -> None:
        """Write the trees of B slots, which may have fewer nodes. A slot that is held, bool [B],
        keeps its tree."""
        self.drop(slots, held)
        for field in fields(self):
            theirs = getattr(trees, field.name)
            mine = getattr(self, field.name)[(slice(None), *map(slice, theirs.shape[1:]))]
            mine[slots] = torch.where(held.view(-1, *[1] * (theirs.dim() - 1)), mine[slots], theirs)

    def drop(self, slots: slice | Tensor, held: Tensor) -> None:
        """Remove the drafts of B slots. A slot that is held, bool [B], keeps its drafts."""
        self.tokens[slots] = torch.where(held[:, None], self.tokens[slots], -1)

    def paths(self, depth: int) -> Tensor:
        """The drafts on the path to each node in order, int32 [S, N, depth], -1 past its end."""
        on_path = self.ancestor_mask[:, :, 1:]
        depths = (self.depths[:, None, 1:] - 1).expand_as(on_path)
        tokens = self.tokens[:, None, 1:].expand_as(on_path)
        paths = torch.full(
            (*on_path.shape[:2], depth + 1), -1, dtype=torch.int32, device=tokens.device
        )
        paths.scatter_(2, depths.masked_fill(~on_path, depth), tokens.masked_fill(~on_path, -1))
        return paths[:, :, :depth]

    def clear(self, slots: Tensor) -> None:
        """Remove the drafts of `slots`, int64 [B]."""
        self.tokens.index_fill_(0, slots, -1)
