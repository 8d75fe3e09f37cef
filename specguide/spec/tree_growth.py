"""Owns the growth of draft trees: which candidates are expanded, and which are verified in the end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from specguide.draft_tree import TreeExpansion
from specguide.sampling import SlotTrees


class TreeGrowth:
    """The trees of B slots while they grow. Terms are those of `TreeExpansion`; k is its num_children.

    sees:   bool [B, w, M], which of all M expanded nodes those of the last depth see
    """

    def __init__(self, expansion: TreeExpansion, num_slots: int, device: torch.device) -> None:
        self._expansion, self._device, self._num_slots = expansion, device, num_slots
        self._tokens: list[Tensor] = []  # candidates of each depth, int32 [B, n]
        self._scores: list[Tensor] = []  # and the logarithm of the product of probabilities on their paths
        self._expanded: list[Tensor] = []  # of each depth, index among its candidates, int64 [B, w]
        self._parent_scores = torch.zeros(num_slots, 1, device=device)
        self.sees = torch.zeros(num_slots, 1, 0, dtype=torch.bool, device=device)

    @property
    def depths(self) -> Tensor:
        """Of all expanded nodes, int64 [M]."""
        widths = self._expansion.widths[:len(self._expanded)]
        return self._constant(depth for depth, width in enumerate(widths, start=1) for _ in range(width))

    def add_children(self, tokens: Tensor, logprobs: Tensor, is_too_deep: Tensor) -> None:
        """Of the nodes expanded last, int32 and float32 [B, w, k]; a token is -1 where there is none.

        is_too_deep: bool [B], slots whose trees are to have none of them
        """
        self._tokens.append(tokens.flatten(1).masked_fill(is_too_deep[:, None], -1))
        scores = (self._parent_scores[:, :, None] + logprobs).flatten(1)
        self._scores.append(scores.masked_fill(is_too_deep[:, None], float("-inf")))

    def expand(self) -> tuple[Tensor, Tensor]:
        """The nodes to expand next: tokens int32 [B, w], and which of those expanded last are their parents, int64."""
        depth = len(self._expanded) + 1
        chosen = self._chosen_at(depth)
        parents = chosen // self._expansion.num_children
        self._expanded.append(chosen)
        self._parent_scores = self._scores[-1].gather(1, chosen)
        before = self.sees.gather(1, parents[:, :, None].expand(-1, -1, self.sees.shape[2]))
        itself = torch.eye(chosen.shape[1], dtype=torch.bool, device=self._device).expand(self._num_slots, -1, -1)
        self.sees = torch.cat([before, itself], dim=2)
        return self._tokens[-1].gather(1, chosen), parents

    def parent_places(self, parents: Tensor) -> Tensor:
        """Places of `parents`, as `expand` has just given them."""
        return parents + self._expansion.stage_begins[len(self._expanded) - 1]

    def _chosen_at(self, depth: int) -> Tensor:
        width = self._expansion.widths[depth - 1]
        if self._expansion.fixed is None:
            return self._scores[-1].topk(width, dim=1).indices
        first = self._expansion.candidate_begins[depth - 1]
        indices = self._constant(candidate - first for candidate in self._expansion.fixed.expanded[depth - 1])
        return indices.expand(self._num_slots, -1)

    def finish(self) -> tuple[SlotTrees, tuple[Tensor, Tensor]]:
        """The trees to verify, and of their nodes that were not expanded, tokens and parents' places, [B, N - 1]."""
        expansion, candidates = self._expansion, self._verified()
        tokens = torch.cat(self._tokens, dim=1).gather(1, candidates)
        parent_places = self._parent_place.expand(self._num_slots, -1).gather(1, candidates)
        places = self._places_of_expanded().gather(1, candidates)
        nodes = torch.arange(1, expansion.num_nodes, device=self._device).expand_as(places)
        is_leaf = places == 0
        places = torch.where(is_leaf, nodes + (expansion.stage_begins[-2] - 1), places)
        node_at = torch.zeros(self._num_slots, expansion.num_places, dtype=torch.int64, device=self._device)
        parents = pad(node_at.scatter_(1, places, nodes).gather(1, parent_places), (1, 0))
        depths = pad(self._depth.expand(self._num_slots, -1).gather(1, candidates), (1, 0))
        trees = SlotTrees(pad(tokens, (1, 0), value=-1), parents, depths, pad(places, (1, 0)), self._seen(parents))
        return trees, (tokens.masked_fill(~is_leaf, -1), parent_places)

    def _verified(self) -> Tensor:
        """Candidates in ascending order, int64 [B, N - 1]: parents come before their children.

        A parent is at least as likely as its children, and of equals those that come first are taken: so it is there.
        """
        if self._expansion.fixed is not None:
            return self._constant(self._expansion.fixed.chosen).expand(self._num_slots, -1)
        order = torch.cat(self._scores, dim=1).sort(dim=1, descending=True, stable=True).indices
        return order[:, :self._expansion.num_nodes - 1].sort(dim=1).values

    def _places_of_expanded(self) -> Tensor:
        """The place of each candidate, int64 [B, candidates]; 0 of those that were not expanded."""
        expansion = self._expansion
        places = torch.zeros(self._num_slots, expansion.num_candidates, dtype=torch.int64, device=self._device)
        for depth, chosen in enumerate(self._expanded, start=1):
            at = torch.arange(*expansion.stage_begins[depth:depth + 2], device=self._device)
            places.scatter_(1, chosen + expansion.candidate_begins[depth - 1], at.expand(self._num_slots, -1))
        return places

    def _seen(self, parents: Tensor) -> Tensor:
        """bool [B, N, N]: each node sees itself and what its parent sees."""
        num_nodes = parents.shape[1]
        itself = torch.eye(num_nodes, dtype=torch.bool, device=self._device)
        sees, index = itself.expand(self._num_slots, -1, -1), parents[:, :, None].expand(-1, -1, num_nodes)
        for _ in range(self._expansion.depth):
            sees = itself | sees.gather(1, index)
        return sees

    @property
    def _depth(self) -> Tensor:
        """Of each candidate."""
        spans = enumerate(pairwise(self._expansion.candidate_begins), start=1)
        return self._constant(depth for depth, span in spans for _ in range(*span))

    @property
    def _parent_place(self) -> Tensor:
        """Of each candidate, the place of the node that it is a child of."""
        expansion = self._expansion
        return self._constant(place for place in range(expansion.stage_begins[-2])
                              for _ in range(expansion.num_children))

    def _constant(self, values: Iterable[int]) -> Tensor:
        return _constant(tuple(values), self._device)


@cache
def _constant(values: tuple[int, ...], device: torch.device) -> Tensor:
    """int64; made once, since a capture cannot make it."""
    return torch.tensor(values, dtype=torch.int64, device=device)
