"""Owns the shape of a draft: nodes, each a proposed token with its parent; fixed, or chosen anew in
each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from specguide.errors import InvalidParams

MOST_NODES, MOST_DEPTH, MOST_CHILDREN = 128, 16, 16
"""Of a tree that an engine drafts."""


@dataclass(frozen=True)
class DraftTree:
    """Shape of one iteration's draft. Node 0 is the golden token; node j > 0 has `parents[j] < j`.

    parents: the parent of each node; parents[0] is -1
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[0] != -1:
            raise InvalidParams("node 0 is the golden token, its parent is -1", param="tree")
        for node, parent in enumerate(self.parents[1:], start=1):
            if not 0 <= parent < node:
                raise InvalidParams(
                    f"node {node} has parent {parent}; a parent comes before its children",
                    param="tree",
                )

    @classmethod
    def chain(cls, num_draft_tokens: int) -> DraftTree:
        """A chain of `num_draft_tokens` drafts after the golden token."""
        return cls(tuple(range(-1, num_draft_tokens)))

    @classmethod
    def from_choices(cls, choices: Sequence[Sequence[int]]) -> DraftTree:
        """From paths of child ranks, the form in which EAGLE and Medusa publish their trees.

        Raises InvalidParams for a path that is empty, comes twice, or whose parent is not among the
        paths.
        """
        paths = [(), *sorted((tuple(path) for path in choices), key=lambda path: (len(path), path))]
        index = {path: node for node, path in enumerate(paths)}
        if len(index) < len(paths):
            raise InvalidParams("a path of the tree is empty or comes twice", param="tree")
        for path in paths[1:]:
            if path[:-1] not in index:
                raise InvalidParams(
                    f"path {list(path)} has no parent: {list(path[:-1])} is not a path of the tree",
                    param="tree",
                )
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

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the golden token to `node`, both included."""
        nodes: list[int] = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))

    @cached_property
    def expansion(self) -> TreeExpansion:
        """How it is drafted: the r-th child of a node is the r-th likeliest token behind it."""
        children = [
            [child for child in range(self.num_nodes) if self.parents[child] == node]
            for node in range(self.num_nodes)
        ]
        num_children, level, first = max(map(len, children)), [0], 0
        expanded: list[tuple[int, ...]] = []
        chosen: list[int] = []
        while level:
            born = {
                child: first + place * num_children + rank
                for place, node in enumerate(level)
                for rank, child in enumerate(children[node])
            }
            first += len(level) * num_children
            chosen += born.values()
            level = [child for child in born if children[child]]
            expanded.append(tuple(born[child] for child in level))
        return TreeExpansion(
            num_children,
            tuple(map(len, expanded[:-1])),
            self.num_nodes,
            FixedChoice(tuple(expanded[:-1]), tuple(chosen)),
        )


@dataclass(frozen=True)
class DynamicTree:
    """A tree that takes its shape from the drafter's probabilities (Li et al. 2024, "EAGLE-2",
    arXiv 2406.16858).

    At each depth the likeliest nodes, by the product of the probabilities on their paths, are
    expanded; of all that have come up the likeliest are verified.

    top_k:     nodes expanded at each depth, and children drafted of each, 1 to 16
    depth:     most drafts on a path, 1 to 16
    num_nodes: nodes verified, the golden token included, 2 to 128
    """

    top_k: int = 10
    depth: int = 6
    num_nodes: int = 60

    def __post_init__(self) -> None:
        for name, least, most in (
            ("top_k", 1, MOST_CHILDREN),
            ("depth", 1, MOST_DEPTH),
            ("num_nodes", 2, MOST_NODES),
        ):
            if not least <= getattr(self, name) <= most:
                raise InvalidParams(
                    f"{name} of a draft tree must be {least} to {most}, found "
                    f"{getattr(self, name)}",
                    param="tree",
                )
        most_drafts = self.expansion.num_candidates
        if self.num_nodes - 1 > most_drafts:
            raise InvalidParams(
                f"a draft tree of top_k {self.top_k} and depth {self.depth} has {most_drafts} "
                "drafts: "
                f"num_nodes must be at most {most_drafts + 1}, found {self.num_nodes}",
                param="tree",
            )

    @property
    def parents(self) -> None:
        """Chosen anew in each iteration."""
        return None

    @cached_property
    def expansion(self) -> TreeExpansion:
        """How it is drafted."""
        return TreeExpansion(self.top_k, (self.top_k,) * (self.depth - 1), self.num_nodes, None)


@dataclass(frozen=True)
class FixedChoice:
    """Which candidates are taken, by index among all, whatever is drafted.

    expanded: of depths 1 … D - 1
    chosen:   those verified, ascending
    """

    expanded: tuple[tuple[int, ...], ...]
    chosen: tuple[int, ...]

    def is_chosen(self, num_candidates: int) -> tuple[int, ...]:
        """Of each candidate, 1 or 0."""
        chosen = set(self.chosen)
        return tuple(int(candidate in chosen) for candidate in range(num_candidates))


@dataclass(frozen=True)
class TreeExpansion:
    """The steps in which a tree of depth D is drafted.

    Candidates are the children of all expanded nodes, the golden token's first, then those of depth
    1 in order, and so on. What the grammar walks over are places: 0 is the golden token's, then
    come the expanded nodes depth by depth, then one for each other node that may be verified.

    num_children: drafted of each expanded node
    widths:       nodes expanded at depths 1 … D - 1
    num_nodes:    nodes verified, the golden token included
    fixed:        None: the likeliest are taken
    whole:        a larger tree, of whose places those of each depth are the first ones; None: it
                  has places of its own
    """

    num_children: int
    widths: tuple[int, ...]
    num_nodes: int
    fixed: FixedChoice | None
    whole: TreeExpansion | None = None

    def within(self, whole: TreeExpansion) -> TreeExpansion | None:
        """The same with places among those of `whole`; None where they do not fit, or are all of
        them."""
        fits = (
            1 < self.depth <= whole.depth
            and self.num_nodes < whole.num_nodes
            and all(width <= room for width, room in zip(self.widths, whole.widths, strict=False))
        )
        return replace(self, whole=whole) if fits else None

    @property
    def depth(self) -> int:
        """D, most drafts on a path."""
        return len(self.widths) + 1

    @cached_property
    def stage_begins(self) -> tuple[int, ...]:
        """The first place of each stage, and their number: 0; the expanded nodes of each depth; the
        others.

        Places of a larger tree that this one has no nodes for count to the stage before them.
        """
        if self.whole is not None:
            return *self.whole.stage_begins[: self.depth], *self.whole.stage_begins[-2:]
        return *accumulate((0, 1, *self.widths)), self.num_places

    def places_of(self, depth: int) -> tuple[int, tuple[int, ...]]:
        """The first place of the depth before, and those of the nodes expanded at `depth`: none at
        the last."""
        begin, width = self.stage_begins[depth], self.widths[depth - 1] if depth < self.depth else 0
        return self.stage_begins[depth - 1], tuple(range(begin, begin + width))

    @cached_property
    def expanded_places(self) -> tuple[int, ...]:
        """Of the golden token and each expanded node; k candidates of each follow one another."""
        return 0, *(place for depth in range(1, self.depth) for place in self.places_of(depth)[1])

    @cached_property
    def num_before(self) -> tuple[int, ...]:
        """Of each expanded node, drafts on the path to it, in the order of their places."""
        return tuple(num for num, width in enumerate(self.widths) for _ in range(width))

    @cached_property
    def candidate_depths(self) -> tuple[int, ...]:
        """Of each candidate."""
        return tuple(
            depth
            for depth, span in enumerate(pairwise(self.candidate_begins), start=1)
            for _ in range(*span)
        )

    @property
    def num_places(self) -> int:
        """Places that the grammar walks over."""
        return self.whole.num_places if self.whole else sum(self.widths) + self.num_nodes

    @cached_property
    def candidate_begins(self) -> tuple[int, ...]:
        """The first candidate of each depth 1 … D, and their number."""
        return tuple(
            accumulate(
                (0, self.num_children, *(width * self.num_children for width in self.widths))
            )
        )

    @property
    def num_candidates(self) -> int:
        """Candidates of all depths."""
        return self.candidate_begins[-1]

    @property
    def num_positions(self) -> int:
        """Positions behind the golden token at which target or drafter may store keys."""
        return max(self.num_nodes - 1, sum(self.widths))


SMALL_TREE = DynamicTree(4, 4, 16)
"""What is drafted of a larger one where that does not pay."""
