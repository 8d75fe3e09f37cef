"""Owns the shapes of drafts that a configuration can ask for: a chain, a tree of fixed shape, or a
tree whose shape is chosen anew in each iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

from specguide.drafts.layout import NO_DRAFTS, DraftLayout
from specguide.drafts.methods import DraftMethod
from specguide.drafts.tree_layout import FixedChoice, TreeExpansion, TreeLayout
from specguide.errors import InvalidParams
from specguide.inputs.field_values import check_types

MOST_NODES, MOST_DEPTH, MOST_CHILDREN = 128, 16, 16
"""Limits of a draft tree."""


class DraftShape(Protocol):
    """The shape of a configuration's drafts.

    takes_forced: forced tokens may lengthen the drafts
    """

    takes_forced: bool

    def check(self, method: DraftMethod, num_forced: int) -> None:
        """Raise InvalidParams where a method cannot draft this shape, or not with forced tokens."""

    def num_draft_tokens(self, wanted: int) -> int:
        """K, where the configuration says `wanted`."""

    def layout(self, chain: DraftLayout) -> DraftLayout:
        """The layout of this shape, given the layout that the method's drafts have as a chain."""


class Chain:
    """Each draft follows the one before; a `DraftShape`."""

    takes_forced = True

    def check(self, method: DraftMethod, num_forced: int) -> None:
        method.check_alone(num_forced)

    def num_draft_tokens(self, wanted: int) -> int:
        return wanted

    def layout(self, chain: DraftLayout) -> DraftLayout:
        return chain


CHAIN = Chain()
"""The shape of a configuration without a tree."""


class TreeShape(ABC):
    """Several drafts may follow one node; a `DraftShape`."""

    takes_forced = False

    @property
    @abstractmethod
    def expansion(self) -> TreeExpansion:
        """The steps in which it is drafted."""

    def check(self, method: DraftMethod, num_forced: int) -> None:
        self._check_size()
        if not method.has_model:
            raise InvalidParams(
                f"a draft tree needs a draft head or model, and method {method.name!r} has none: "
                "leave tree out",
                param="tree",
            )
        if method.in_one_pass:
            raise InvalidParams(
                f"method {method.name!r} makes all its drafts in one pass, as a chain: leave tree "
                "out",
                param="tree",
            )
        if method.has_own_trees:
            raise InvalidParams(
                f"method {method.name!r} chooses the draft tree itself: leave tree out, or set "
                "another method",
                param="tree",
            )
        if num_forced:
            raise InvalidParams(
                "forced tokens work only with chains: set num_forced_tokens to 0, or leave tree "
                "out",
                param="tree",
            )

    def _check_size(self) -> None:
        expansion = self.expansion
        for name, found, most in (
            ("nodes", expansion.num_nodes, MOST_NODES),
            ("levels", expansion.depth, MOST_DEPTH),
            ("children of a node", expansion.num_children, MOST_CHILDREN),
        ):
            if found > most:
                raise InvalidParams(
                    f"a draft tree may have at most {most} {name}, found {found}", param="tree"
                )
        if expansion.num_nodes < 2:
            raise InvalidParams(
                "a draft tree needs at least one draft besides the golden token", param="tree"
            )
        self._check_drafts(expansion)

    def _check_drafts(self, expansion: TreeExpansion) -> None:
        """Raise InvalidParams where the tree expands or verifies more candidates than there are."""
        spans = pairwise(expansion.candidate_begins)
        for depth, (width, (begin, end)) in enumerate(
            zip(expansion.widths, spans, strict=False), start=1
        ):
            if width > end - begin:
                raise InvalidParams(
                    f"a draft tree has only {end - begin} drafts at level {depth}, so it cannot "
                    f"expand {width} of them",
                    param="tree",
                )
        if expansion.num_nodes - 1 > expansion.num_candidates:
            raise InvalidParams(
                f"a draft tree with {expansion.num_candidates} drafts cannot have "
                f"{expansion.num_nodes} nodes: at most {expansion.num_candidates + 1}",
                param="tree",
            )

    def num_draft_tokens(self, wanted: int) -> int:
        return self.expansion.depth

    def layout(self, chain: DraftLayout = NO_DRAFTS) -> TreeLayout:
        """The layout of a tree whose nodes' parents are chosen anew in each iteration."""
        return _with_smaller(self.expansion)


@dataclass(frozen=True)
class DraftTree(TreeShape):
    """A tree of fixed shape. Node 0 is the golden token; node j > 0 has `parents[j] < j`.

    parents: the parent of each node; parents[0] is -1
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[0] != -1:
            raise InvalidParams(
                "parents must begin with -1: node 0 is the golden token, which has no parent",
                param="tree",
            )
        for node, parent in enumerate(self.parents[1:], start=1):
            if not 0 <= parent < node:
                raise InvalidParams(
                    f"node {node} has parent {parent}, but a parent must come before its children",
                    param="tree",
                )

    @classmethod
    def chain(cls, num_draft_tokens: int) -> DraftTree:
        """A chain of `num_draft_tokens` drafts after the golden token."""
        return cls(tuple(range(-1, num_draft_tokens)))

    @classmethod
    def from_choices(cls, choices: Sequence[Sequence[int]]) -> DraftTree:
        """A tree from paths of child ranks, the form in which EAGLE and Medusa publish their trees.

        Raises InvalidParams for a path that is empty, comes twice, or comes without its parent or
        its likelier siblings.
        """
        paths = [(), *sorted((tuple(path) for path in choices), key=lambda path: (len(path), path))]
        index = {path: node for node, path in enumerate(paths)}
        if len(index) < len(paths):
            raise InvalidParams("a path of the draft tree is empty or is given twice", param="tree")
        for *parent, rank in paths[1:]:
            for needed in (parent, [*parent, rank - 1]) if rank else (parent,):
                if tuple(needed) not in index:
                    raise InvalidParams(
                        f"the draft tree has the path {[*parent, rank]} without {needed}: add that",
                        param="tree",
                    )
        return cls(tuple(index[path[:-1]] if path else -1 for path in paths))

    def layout(self, chain: DraftLayout = NO_DRAFTS) -> TreeLayout:
        """The layout of a tree whose nodes have these parents."""
        return _with_smaller(self.expansion, self.parents)

    @property
    def num_nodes(self) -> int:
        """Number of nodes, the golden token included."""
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
        """The steps in which it is drafted: the r-th child of a node is the r-th likeliest token
        there."""
        children = [
            [child for child in range(self.num_nodes) if self.parents[child] == node]
            for node in range(self.num_nodes)
        ]
        num_children = max(map(len, children))
        frontier = [0]
        first = 0
        expanded: list[tuple[int, ...]] = []
        chosen: list[int] = []
        while frontier:
            born = {
                child: first + place * num_children + rank
                for place, node in enumerate(frontier)
                for rank, child in enumerate(children[node])
            }
            first += len(frontier) * num_children
            chosen += born.values()
            frontier = [child for child in born if children[child]]
            expanded.append(tuple(born[child] for child in frontier))
        return TreeExpansion(
            num_children,
            tuple(map(len, expanded[:-1])),
            self.num_nodes,
            FixedChoice(tuple(expanded[:-1]), tuple(chosen)),
        )


@dataclass(frozen=True)
class DynamicTree(TreeShape):
    """A tree that takes its shape from the drafter's probabilities (Li et al. 2024, "EAGLE-2",
    arXiv 2406.16858).

    A node's score is the product of the probabilities on its path. At each depth the nodes with the
    best scores are expanded; of all candidates, the best are verified.

    top_k:     nodes expanded at each depth, and children drafted of each, 1 to 16
    depth:     most drafts on a path, 1 to 16
    num_nodes: nodes verified, the golden token included, 2 to 128
    """

    top_k: int = 10
    depth: int = 6
    num_nodes: int = 60

    def __post_init__(self) -> None:
        check_types(self)
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
                f"drafts: num_nodes must be at most {most_drafts + 1}, found {self.num_nodes}",
                param="tree",
            )

    @cached_property
    def expansion(self) -> TreeExpansion:
        """The steps in which it is drafted."""
        return TreeExpansion(self.top_k, (self.top_k,) * (self.depth - 1), self.num_nodes, None)


SMALL_TREE = DynamicTree(4, 4, 16)
"""What is drafted of a larger tree where the whole does not pay."""

_SMALLER_TREES = (DraftTree.chain(3), SMALL_TREE)


def _with_smaller(growth: TreeExpansion, parents: tuple[int, ...] | None = None) -> TreeLayout:
    """The layout of a tree. An adaptive iteration may also draft nothing, a chain of three drafts,
    or a smaller tree, where these fit into the tree."""
    parts = (part.expansion.within(growth) for part in _SMALLER_TREES)
    smaller = (TreeLayout.grown(part) for part in parts if part)
    return TreeLayout.grown(growth, parents, (NO_DRAFTS, *smaller))
