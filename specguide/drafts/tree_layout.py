"""Owns how a draft tree grows: the steps of its expansion, and the layout of the result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise

from specguide.drafts.layout import DraftLayout


@dataclass(frozen=True)
class FixedChoice:
    """Which candidates a tree of fixed shape takes, by index among all candidates.

    expanded: the candidates to expand at each depth 1 … D - 1
    chosen:   the candidates to verify, ascending
    """

    expanded: tuple[tuple[int, ...], ...]
    chosen: tuple[int, ...]

    def is_chosen(self, num_candidates: int) -> tuple[int, ...]:
        """1 for each candidate that is chosen, else 0."""
        chosen = set(self.chosen)
        return tuple(int(candidate in chosen) for candidate in range(num_candidates))


@dataclass(frozen=True)
class TreeExpansion:
    """The steps in which a tree of depth D is drafted.

    Candidates are the children of all expanded nodes: first those of the golden token, then those
    of the nodes expanded at depth 1 in order, and so on. The grammar walks over places: place 0 is
    the golden token's, then come the expanded nodes depth by depth, then one place for each other
    node that may be verified.

    num_children: children drafted of each expanded node
    widths:       number of nodes expanded at each depth 1 … D - 1
    num_nodes:    number of nodes verified, the golden token included
    fixed:        the candidates to take; None: the likeliest
    whole:        a larger tree whose places are used: at each depth the first ones; None: this tree
                  has its own places
    """

    num_children: int
    widths: tuple[int, ...]
    num_nodes: int
    fixed: FixedChoice | None
    whole: TreeExpansion | None = None

    def within(self, whole: TreeExpansion) -> TreeExpansion | None:
        """The same tree with places among those of `whole`; None where it does not fit in, or is
        not smaller."""
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
        """The first place of each stage, then the number of places. The stages: the golden token;
        the expanded nodes of each depth; all other nodes.

        Places of `whole` for which this tree has no nodes belong to the stage before them.
        """
        if self.whole is not None:
            return *self.whole.stage_begins[: self.depth], *self.whole.stage_begins[-2:]
        return *accumulate((0, 1, *self.widths)), self.num_places

    def places_of(self, depth: int) -> tuple[int, tuple[int, ...]]:
        """The first place of the depth before `depth`, and the places of the nodes expanded at
        `depth`; the last depth has none."""
        begin = self.stage_begins[depth]
        width = self.widths[depth - 1] if depth < self.depth else 0
        return self.stage_begins[depth - 1], tuple(range(begin, begin + width))

    def num_missing(self, depth: int) -> int:
        """How many places after the nodes expanded at `depth` have a node only in `whole`."""
        _, places = self.places_of(depth)
        return self.stage_begins[depth + 1] - places[-1] - 1 if places else 0

    @cached_property
    def expanded_places(self) -> tuple[int, ...]:
        """Places of the golden token and of each expanded node. Their candidates stand in this
        order, num_children for each."""
        return 0, *(place for depth in range(1, self.depth) for place in self.places_of(depth)[1])

    @cached_property
    def num_before(self) -> tuple[int, ...]:
        """Number of drafts on the path before each expanded node, in the order of their places."""
        return tuple(num for num, width in enumerate(self.widths) for _ in range(width))

    @cached_property
    def candidate_depths(self) -> tuple[int, ...]:
        """The depth of each candidate."""
        return tuple(
            depth
            for depth, span in enumerate(pairwise(self.candidate_begins), start=1)
            for _ in range(*span)
        )

    @property
    def num_places(self) -> int:
        """Number of places that the grammar walks over."""
        return self.whole.num_places if self.whole else sum(self.widths) + self.num_nodes

    @cached_property
    def candidate_begins(self) -> tuple[int, ...]:
        """The first candidate of each depth 1 … D, then the number of candidates."""
        return tuple(
            accumulate(
                (0, self.num_children, *(width * self.num_children for width in self.widths))
            )
        )

    @property
    def num_candidates(self) -> int:
        """Number of candidates of all depths."""
        return self.candidate_begins[-1]

    @property
    def num_positions(self) -> int:
        """Positions behind the golden token at which target or drafter may store keys."""
        return max(self.num_nodes - 1, sum(self.widths))


@dataclass(frozen=True)
class TreeLayout(DraftLayout):
    """A tree of drafts of a draft head or model: several drafts may follow one node.

    growth: the steps in which the tree is drafted
    """

    growth: TreeExpansion = field(kw_only=True)

    @classmethod
    def grown(
        cls,
        growth: TreeExpansion,
        parents: tuple[int, ...] | None = None,
        smaller: tuple[DraftLayout, ...] = (),
    ) -> TreeLayout:
        """The layout of the tree that `growth` drafts."""
        return cls(
            growth.depth,
            parents=parents,
            stages=growth.stage_begins,
            num_nodes=growth.num_nodes,
            num_positions=growth.num_positions,
            growth=growth,
            smaller=smaller,
        )

    @property
    def takes_processors(self) -> bool:
        """False: a logits processor is called along a single path."""
        return False

    @property
    def first_level(self) -> DraftLayout:
        """The smallest level that drafts anything."""
        return self.levels[1]
