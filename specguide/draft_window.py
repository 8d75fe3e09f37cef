"""Owns how many drafts there may be behind a golden token, and how many of them an iteration
makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from specguide.draft_tree import SMALL_TREE, DraftTree, TreeExpansion
from specguide.errors import InvalidParams
from specguide.params import Speculation

_SMALLER_TREES = (DraftTree.chain(3), SMALL_TREE)
# tokens, of all requests: from 300 to 500 on an accelerator computes longer than it reads weights
_MOST_VERIFIED = 512


@dataclass(frozen=True)
class DraftWindow:
    """What drafts there may be behind a golden token: a chain of at most W, or a tree of depth W.

    num_model:  K, of a draft head or model
    num_lookup: that are looked up
    num_forced: F, that the grammar forces; as many may follow one another
    tree:       in which the model's are drafted, of depth K; None: a chain
    """

    num_model: int = 0
    num_lookup: int = 0
    num_forced: int = 0
    tree: TreeExpansion | None = None

    @property
    def num_drafts(self) -> int:
        """W, most that are accepted."""
        return self.num_model + self.num_lookup + self.num_forced

    @property
    def num_verified(self) -> int:
        """Drafts that the target looks at: W of a chain; of a tree its nodes but the golden
        token."""
        return self.tree.num_nodes - 1 if self.tree else self.num_drafts

    @property
    def num_positions(self) -> int:
        """Positions behind the golden token at which keys are stored."""
        return self.tree.num_positions if self.tree else self.num_drafts

    @property
    def num_places(self) -> int:
        """Tokens of a slot that the grammar walks over, the golden one included."""
        return self.tree.num_places if self.tree else self.num_drafts + 1

    @property
    def has_proposals(self) -> bool:
        """Some drafts come from the host."""
        return self.num_lookup + self.num_forced > 0

    @cached_property
    def levels(self) -> tuple[DraftWindow, ...]:
        """How much of it an iteration may draft, ascending: nothing; of a chain what is not forced,
        of a tree a chain, then a smaller tree; all."""
        if self.tree is None:
            return tuple(dict.fromkeys((DraftWindow(), replace(self, num_forced=0), self)))
        parts = (tree.expansion.within(self.tree) for tree in _SMALLER_TREES)
        return DraftWindow(), *(DraftWindow(part.depth, tree=part) for part in parts if part), self

    def levels_for(self, num_slots: int) -> tuple[DraftWindow, ...]:
        """The first two, and of the others those that so many slots may draft: where a forward pass
        over all drafts would compute for longer than it reads, they cannot pay."""
        return *self.levels[:2], *(
            level
            for level in self.levels[2:]
            if num_slots * (level.num_verified + 1) <= _MOST_VERIFIED
        )

    @property
    def first_level(self) -> DraftWindow:
        """What is drafted when nothing is known yet: all of a chain, the least of a tree."""
        return self if self.tree is None else self.levels[1]

    @property
    def limits(self) -> tuple[int, int, int]:
        """As the executor takes them: of the model, forced, looked up."""
        return self.num_model, self.num_forced, self.num_lookup

    def within(self, wanted: Speculation) -> DraftWindow:
        """What there may be of it for a request. Raises InvalidParams where the request wants more
        than there is."""
        num_own = self._checked(
            "num_draft_tokens", wanted.num_draft_tokens, self.num_model + self.num_lookup
        )
        num_forced = self._checked("num_forced_tokens", wanted.num_forced_tokens, self.num_forced)
        return DraftWindow(min(self.num_model, num_own), min(self.num_lookup, num_own), num_forced)

    @staticmethod
    def _checked(name: str, number: int | None, most: int) -> int:
        if number is not None and number > most:
            raise InvalidParams(
                f"speculation.{name} may be at most {most} with this engine's drafts, found "
                f"{number}: "
                "ask for fewer or build the engine with more",
                param=f"speculation.{name}",
            )
        return most if number is None else number


class Levels(NamedTuple):
    """How much of a window one decode iteration uses.

    verified: what its drafts are of, as an earlier iteration made them
    drafted:  what it makes drafts of
    """

    verified: DraftWindow
    drafted: DraftWindow
