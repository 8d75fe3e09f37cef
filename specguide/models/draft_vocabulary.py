"""Owns DraftVocabulary: which tokens of the target an EAGLE-3 head can propose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.layers.destination import Destination
from specguide.models.eagle3_config import Eagle3Config


@dataclass(frozen=True, eq=False)
class DraftVocabulary:
    """The two published tables of a pruned vocabulary; a table that the checkpoint lacks is None.

    num_drafts: tokens that the head can propose
    vocab_size: size of the target's vocabulary
    d2t:        int64 [num_drafts], target id - draft id
    t2d:        bool [vocab_size], which target ids have a draft id
    """

    num_drafts: int
    vocab_size: int
    d2t: Tensor | None
    t2d: Tensor | None

    @classmethod
    def empty(cls, config: Eagle3Config, *, has_d2t: bool, has_t2d: bool) -> DraftVocabulary:
        """Empty tables, to be filled from a checkpoint."""
        num_drafts, vocab_size = config.draft_vocab_size, config.layer.vocab_size
        return cls(
            num_drafts,
            vocab_size,
            torch.zeros(num_drafts, dtype=torch.int64) if has_d2t else None,
            torch.zeros(vocab_size, dtype=torch.bool) if has_t2d else None,
        )

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its name."""
        tables = {"d2t": self.d2t, "t2d": self.t2d}
        return {name: Destination.of(it) for name, it in tables.items() if it is not None}

    def target_ids(self) -> Tensor:
        """Target id of each draft id, int64 [num_drafts]: target = draft + d2t[draft]. Raises
        CheckpointError if the tables contradict each other."""
        if self.d2t is None:
            return torch.arange(self.num_drafts)
        target_ids = torch.arange(self.num_drafts) + self.d2t
        self._check_range(self.d2t, target_ids)
        counts = torch.bincount(target_ids, minlength=self.vocab_size)
        if int(counts.max()) > 1:
            raise CheckpointError(
                f"d2t maps {int(counts.max())} draft ids to the target id {int(counts.argmax())}; "
                "each must have a target id of its own"
            )
        if self.t2d is not None and not torch.equal(self.t2d, counts > 0):
            wrong = int((self.t2d != (counts > 0)).nonzero()[0])
            raise CheckpointError(
                f"t2d[{wrong}] is {bool(self.t2d[wrong])}, but d2t says that target id {wrong} is "
                f"{'' if counts[wrong] else 'not '}in the draft vocabulary"
            )
        return target_ids

    def _check_range(self, d2t: Tensor, target_ids: Tensor) -> None:
        is_outside = (target_ids < 0) | (target_ids >= self.vocab_size)
        outside = is_outside.nonzero().flatten().tolist()
        if outside:
            raise CheckpointError(
                f"d2t[{outside[0]}] = {int(d2t[outside[0]])} leads to target id "
                f"{int(target_ids[outside[0]])}, outside the vocabulary of {self.vocab_size} "
                f"({len(outside)} such values); d2t must hold offsets, target id - draft id"
            )
