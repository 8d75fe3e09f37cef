"""Owns where the drafts behind a golden token stand, as plain data, and how many of them an
iteration makes.

A `DraftLayout` is a chain of a drafter's own tokens; `ProposedChain` and `tree_layout.TreeLayout`
say what is otherwise with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from specguide.errors import InvalidParams
from specguide.params import Speculation

# tokens, of all requests: from 300 to 500 on an accelerator computes longer than it reads weights
_MOST_VERIFIED = 512


@dataclass(frozen=True)
class DraftLayout:
    """What drafts there may be behind a golden token: at most W follow one another.

    num_model:     K, of a draft head or model
    num_lookup:    that are looked up on the host
    num_forced:    F, that the grammar forces; as many may follow one another
    parents:       of each node that the target verifies, node 0 the golden token, which has -1;
                   None: chosen anew in each iteration
    stages:        the first place of each stage that the grammar walks over in one callback, and
                   the number of all places; the golden token is stage 0, and with one path of
                   nodes each is a stage of its own
    num_nodes:     that the target verifies at most, the golden token included
    num_positions: behind the golden token at which keys are stored
    smaller:       layouts of which an iteration may draft instead, ascending
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
        """One draft behind the other. An iteration may also draft nothing, or all but what is
        forced."""
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
        """W, most that are accepted."""
        return self.num_model + self.num_lookup + self.num_forced

    @property
    def num_places(self) -> int:
        """Tokens of a slot that the grammar walks over, the golden one included."""
        return self.stages[-1]

    @property
    def num_own(self) -> int:
        """Drafts that the method makes itself, forced ones aside."""
        return self.num_model + self.num_lookup

    @property
    def levels(self) -> tuple[DraftLayout, ...]:
        """How much of it an iteration may draft, ascending: nothing first, all last."""
        return *self.smaller, self

    def levels_for(self, num_slots: int) -> tuple[DraftLayout, ...]:
        """The first two, and of the others those that so many slots may draft: where a forward pass
        over all drafts would compute for longer than it reads, they cannot pay."""
        return *self.levels[:2], *(
            level for level in self.levels[2:] if num_slots * level.num_nodes <= _MOST_VERIFIED
        )

    @property
    def first_level(self) -> DraftLayout:
        """What is drafted when nothing is known yet."""
        return self

    @property
    def takes_processors(self) -> bool:
        """Logits processors can be called along its drafts."""
        return True

    def check_unguided(self) -> None:
        """Raise InvalidParams where drafts cannot be chosen among all tokens."""

    def check_without_guides(self) -> None:
        """Raise InvalidParams where drafts cannot be made in an engine without guides."""

    def within(self, wanted: Speculation) -> DraftLayout:
        """What there may be of it for a request, as numbers of drafts. Raises InvalidParams where
        the request wants more than there is."""
        num_own = _checked("num_draft_tokens", wanted.num_draft_tokens, self.num_own)
        num_forced = _checked("num_forced_tokens", wanted.num_forced_tokens, self.num_forced)
        num_model, num_lookup = min(self.num_model, num_own), min(self.num_lookup, num_own)
        return DraftLayout.chain(num_model, num_lookup, num_forced)


@dataclass(frozen=True)
class ProposedChain(DraftLayout):
    """A chain of which some drafts come from the host."""

    def check_unguided(self) -> None:
        raise InvalidParams(
            "forced tokens and lookups go by the grammar: leave guided_drafts True with them",
            param="guided_drafts",
        )

    def check_without_guides(self) -> None:
        raise InvalidParams(
            "forced tokens and lookups are proposed by the grammar's callbacks, and guide=None "
            "leaves these out: take drafts of a head or model alone, or keep the guides",
            param="spec",
        )


def _checked(name: str, number: int | None, most: int) -> int:
    if number is not None and number > most:
        raise InvalidParams(
            f"speculation.{name} may be at most {most} with this engine's drafts, found {number}: "
            "ask for fewer or build the engine with more",
            param=f"speculation.{name}",
        )
    return most if number is None else number


NO_DRAFTS = DraftLayout()
"""Plain decoding."""


class IterationLayouts(NamedTuple):
    """How much of a layout one decode iteration uses.

    verified: what its drafts are of, as an earlier iteration made them
    drafted:  what it makes drafts of
    """

    verified: DraftLayout
    drafted: DraftLayout

    @property
    def are_equal(self) -> bool:
        """Whether the iteration changes no level."""
        return self.verified == self.drafted
