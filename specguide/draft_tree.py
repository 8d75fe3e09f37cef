"""Owns the shape of a draft: nodes, each a proposed token with its parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class DraftTree:
    """Shape of one iteration's draft. Node 0 is the golden token; node j > 0 has `parents[j] < j`.

    parents: the parent of each node; parents[0] is -1
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[0] != -1:
            raise ValueError("node 0 is the golden token, its parent is -1")
        for node, parent in enumerate(self.parents[1:], start=1):
            if not 0 <= parent < node:
                raise ValueError(f"node {node} has parent {parent}; a parent comes before its children")

    @classmethod
    def chain(cls, num_draft_tokens: int) -> DraftTree:
        """A chain of `num_draft_tokens` drafts after the golden token."""
        return cls(tuple(range(-1, num_draft_tokens)))

    @classmethod
    def from_choices(cls, choices: Sequence[Sequence[int]]) -> DraftTree:
        """From paths of child ranks, the form in which EAGLE and Medusa publish their trees.

        Raises ValueError for a path that is empty, comes twice, or whose parent is not among the paths.
        """
        paths = [(), *sorted((tuple(path) for path in choices), key=lambda path: (len(path), path))]
        index = {path: node for node, path in enumerate(paths)}
        if len(index) < len(paths):
            raise ValueError("a path of the tree is empty or comes twice")
        for path in paths[1:]:
            if path[:-1] not in index:
                raise ValueError(f"path {list(path)} has no parent: {list(path[:-1])} is not a path of the tree")
        return cls(tuple(index[path[:-1]] if path else -1 for path in paths))

    @property
    def num_nodes(self) -> int:
        """Nodes, the golden token included."""
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the golden token."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def is_chain(self) -> bool:
        """True when every node follows the one before it."""
        return self.parents == tuple(range(-1, self.num_nodes - 1))

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the golden token to `node`, both included."""
        nodes: list[int] = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))

    def attention_mask(self) -> list[list[bool]]:
        """[num_nodes, num_nodes]: entry [i][j] is True when node j is an ancestor of node i, or i itself."""
        return [[j in ancestors for j in range(self.num_nodes)]
                for ancestors in (set(self.path(i)) for i in range(self.num_nodes))]
