"""Owns how a draft tree grows, and the layout that it grows to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise

from specguide.drafts.layout import DraftLayout


@dataclass(frozen=True)
class FixedChoice:
    """Which candidates are taken, by index among all, whatever is drafted.

    expanded: of depths 1 … D - 1
    chosen:   those verified, ascending
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
        begin = self.stage_begins[depth]
        width = self.widths[depth - 1] if depth < self.depth else 0
        return self.stage_begins[depth - 1], tuple(range(begin, begin + width))

    def num_missing(self, depth: int) -> int:
        """Places behind the nodes expanded at `depth` that it has no nodes for: a larger tree
        has."""
        _, places = self.places_of(depth)
        return self.stage_begins[depth + 1] - places[-1] - 1 if places else 0

    @cached_property
    def expanded_places(self) -> tuple[int, ...]:
        """Places of the golden token and of each expanded node; k candidates of each follow one
        another."""
        return 0, *(place for depth in range(1, self.depth) for place in self.places_of(depth)[1])

    @cached_property
    def num_before(self) -> tuple[int, ...]:
        """Number of drafts on the path to each expanded node, in the order of their places."""
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


@dataclass(frozen=True)
class TreeLayout(DraftLayout):
    """Drafts of a draft head or model, of which several may follow one node.

    growth: the steps in which it is drafted
    """

    growth: TreeExpansion = field(kw_only=True)

    @classmethod
    def grown(
        cls,
        growth: TreeExpansion,
        parents: tuple[int, ...] | None = None,
        smaller: tuple[DraftLayout, ...] = (),
    ) -> TreeLayout:
        """What `growth` ends with."""
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
        """A processor is called along one path."""
        return False

    @property
    def first_level(self) -> DraftLayout:
        """The least that drafts anything."""
        return self.levels[1]
