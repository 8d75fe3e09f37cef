"""Owns DraftLayout: which drafts there may be behind a golden token, and how much of them an
iteration drafts. Plain data.

The base class is a chain that a draft head or model drafts. Its subclasses `ProposedChain` and
`tree_layout.TreeLayout` say what differs for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from specguide.errors import InvalidParams
from specguide.params import Speculation

# Tokens of all requests in one pass. From 300 to 500 on, a GPU computes for longer than it reads
# weights, so that further drafts are no longer nearly free.
_MOST_VERIFIED = 512


@dataclass(frozen=True)
class DraftLayout:
    """Which drafts there may be behind a golden token: at most W follow one another.

    num_model:     K, drafts of a draft head or model
    num_lookup:    drafts that the host looks up in earlier text
    num_forced:    F, drafts that the grammar forces, at most this many in a row
    parents:       the parent of each node that the target verifies; node 0 is the golden token and
                   has -1; None: parents are chosen anew in each iteration
    stages:        the first place of each stage, then the number of all places. The grammar walks
                   over the places of a stage in one callback. The golden token is stage 0; in a
                   chain each node is a stage of its own
    num_nodes:     most nodes that the target verifies, the golden token included
    num_positions: positions behind the golden token at which keys may be stored
    smaller:       smaller layouts that an iteration may draft instead, ascending
    """

    num_model: int = 0
    num_lookup: int = 0
    num_forced: int = 0
    parents: tuple[int, ...] | None = (-1,)
    stages: tuple[int, ...] = (0, 1)
    num_nodes: int = 1
    num_positions: int = 0
    smaller: tuple[DraftLayout, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def chain(cls, num_model: int = 0, num_lookup: int = 0, num_forced: int = 0) -> DraftLayout:
        """A chain: each draft follows the one before. An iteration may also draft nothing, or all
        but the forced tokens."""
        num_drafts = num_model + num_lookup + num_forced
        kind = ProposedChain if num_lookup + num_forced else DraftLayout
        smaller: tuple[DraftLayout, ...] = ()
        if num_drafts:
            smaller = (cls(),)
        if num_forced and num_drafts > num_forced:
            smaller = cls(), cls.chain(num_model, num_lookup)
        return kind(
            num_model,
            num_lookup,
            num_forced,
            parents=tuple(range(-1, num_drafts)),
            stages=tuple(range(num_drafts + 2)),
            num_nodes=num_drafts + 1,
            num_positions=num_drafts,
            smaller=smaller,
        )

    @property
    def num_drafts(self) -> int:
        """W, most drafts that are accepted at once."""
        return self.num_model + self.num_lookup + self.num_forced

    @property
    def num_places(self) -> int:
        """Places of a slot that the grammar walks over, that of the golden token included."""
        return self.stages[-1]

    @property
    def num_own(self) -> int:
        """Drafts that the method itself makes, without the forced ones."""
        return self.num_model + self.num_lookup

    @property
    def levels(self) -> tuple[DraftLayout, ...]:
        """The layouts that an adaptive iteration chooses from, ascending: nothing first, all
        last."""
        return *self.smaller, self

    def levels_for(self, num_slots: int) -> tuple[DraftLayout, ...]:
        """The first two levels, and those of the others that can pay with `num_slots` slots: a pass
        over all their nodes must not compute for longer than it reads weights."""
        return *self.levels[:2], *(
            level for level in self.levels[2:] if num_slots * level.num_nodes <= _MOST_VERIFIED
        )

    @property
    def first_level(self) -> DraftLayout:
        """The level that an adaptive engine drafts in a prefill, and before it has measured any."""
        return self

    @property
    def takes_processors(self) -> bool:
        """Whether logits processors can be called along its drafts."""
        return True

    def check_unguided(self) -> None:
        """Raise InvalidParams where drafts cannot be chosen among all tokens."""

    def check_without_guides(self) -> None:
        """Raise InvalidParams where drafts cannot be made in an engine without guides."""

    def within(self, wanted: Speculation) -> DraftLayout:
        """The chain that a request may have, with the numbers of drafts that it asks for. Raises
        InvalidParams where it asks for more than this layout has."""
        num_own = _checked("num_draft_tokens", wanted.num_draft_tokens, self.num_own)
        num_forced = _checked("num_forced_tokens", wanted.num_forced_tokens, self.num_forced)
        num_model, num_lookup = min(self.num_model, num_own), min(self.num_lookup, num_own)
        return DraftLayout.chain(num_model, num_lookup, num_forced)


@dataclass(frozen=True)
class ProposedChain(DraftLayout):
    """A chain in which some drafts come from the host: lookups and forced tokens."""

    def check_unguided(self) -> None:
        raise InvalidParams(
            "forced tokens and lookup drafts always follow the grammar: leave guided_drafts True "
            "with them",
            param="guided_drafts",
        )

    def check_without_guides(self) -> None:
        raise InvalidParams(
            "forced tokens and lookup drafts are proposed by the grammar callbacks, which an "
            "engine with guide=None does not have: use a draft head or model without forced "
            "tokens, or build the engine with guides",
            param="spec",
        )


def _checked(name: str, number: int | None, most: int) -> int:
    if number is not None and number > most:
        raise InvalidParams(
            f"speculation.{name} must be at most {most} in this engine, found {number}: lower it, "
            "or build the engine with more drafts",
            param=f"speculation.{name}",
        )
    return most if number is None else number


NO_DRAFTS = DraftLayout()
"""Plain decoding."""


class IterationLayouts(NamedTuple):
    """How much of a layout one decode iteration uses.

    verified: the level of the drafts that it verifies, which an earlier iteration has made
    drafted:  the level of the drafts that it makes
    """

    verified: DraftLayout
    drafted: DraftLayout

    @property
    def are_equal(self) -> bool:
        """Whether the iteration changes no level."""
        return self.verified == self.drafted
