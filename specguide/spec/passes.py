"""Owns the forward passes of an iteration: the target's, the drafter's over the same tokens, and one per draft."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.batch import TokenScores
from specguide.cache import KVCache
from specguide.models import Decoder
from specguide.sampling import score_tokens
from specguide.spec.drafters import Drafter
from specguide.spec.slots import Query, Slots, SlotState

_MOST_SCORED = 1 << 24
"""Logits of prompt tokens that are there at once."""


class ForwardPasses:
    """Target and drafter over the slots' caches. Without a drafter only `target` may be called."""

    def __init__(self, target: Decoder, cache: KVCache, state: SlotState, drafter: Drafter | None = None) -> None:
        self._target, self._cache, self._state, self._drafter = target, cache, state, drafter
        self._tapped_layers = drafter.tapped_layers if drafter else ()

    @property
    def has_drafter(self) -> bool:
        return self._drafter is not None

    @property
    def target_ids(self) -> Tensor | None:
        """int32 [draft_vocab_size], the target id of each draft id; None where they are the same."""
        return self._drafting.target_ids

    def target(self, query: Query) -> tuple[Tensor, Tensor]:
        """Hidden states [T, hidden], and those that the drafter taps, [T, …]."""
        return self._target.forward(query.input_ids, query.context, self._cache, self._tapped_layers)

    def target_logits(self, query: Query, hidden: Tensor) -> Tensor:
        """Logits after every node, [B · N, vocab_size]; `hidden` as `target` returns it."""
        return self._target.logits(query.at_nodes(hidden))

    def score_prompts(self, query: Query, hidden: Tensor) -> TokenScores | None:
        """Scores of the S prompt tokens that the query wants scored, [S, 1, …]; None where it wants none.

        The logits come in blocks, so that a long prompt takes no more memory than a short one.
        """
        if query.scored is None:
            return None
        num_rows = max(1, _MOST_SCORED // self._target.config.vocab_size)
        blocks = [score_tokens(self._target.logits(hidden[index]), next_ids)
                  for index, next_ids in zip(*(tensor.split(num_rows) for tensor in query.scored), strict=True)]
        return TokenScores(*(torch.cat(parts) for parts in zip(*(block.tensors() for block in blocks), strict=True)))

    def refresh(self, query: Query, taps: Tensor, target_tokens: Tensor, num_accepted: Tensor
                ) -> tuple[Tensor, Tensor]:
        """The drafter over the target's tokens, once the target has said what follows each node.

        target_tokens: int32 [B, N]
        num_accepted:  int32 [B], -1 where held
        Returns what `draft_logits` takes, [B, hidden], and the features to go on from, [B, hidden].
        """
        return self._drafting.refresh(query, taps, target_tokens, num_accepted)

    def draft(self, drafts: Tensor, hidden: Tensor, start: Tensor, slots: Slots, offset: int = 0
              ) -> tuple[Tensor, Tensor]:
        """One more step of the drafter: as `refresh`, for `drafts` int32 [B] behind `start` int64 [B] + `offset`."""
        drafter = self._drafting
        offset += 1 + drafter.position_offset
        return drafter.step(self._state.chain(drafts[:, None], start, slots, offset), hidden)

    def draft_logits(self, normed: Tensor) -> Tensor:
        """The drafter's logits for the next draft, [B, draft_vocab_size]."""
        return self._drafting.draft_logits(normed)

    @property
    def _drafting(self) -> Drafter:
        assert self._drafter is not None
        return self._drafter
