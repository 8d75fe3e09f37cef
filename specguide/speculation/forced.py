"""Owns forced acceptance: for timing on random weights, which say nothing and agree with nobody."""

from __future__ import annotations

import torch
from torch import Tensor

_PERIOD = 1024


class ForcedAcceptance:
    """Makes the target say a given text, and the drafter guess as much of it as a seeded pattern
    says.

    So grammars walk real text, and every mode accepts the same: in each iteration of each slot a
    number of drafts drawn from the binomial distribution of K trials.

    text:              int32 [num_slots, L], the token of each of the slot table's slots at each
                       position, prompts included
    acceptance_length: mean of the pattern, golden token included, 1 to K + 1
    num_draft_tokens:  K
    """

    def __init__(
        self, text: Tensor, acceptance_length: float, num_draft_tokens: int, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        trials = torch.rand(_PERIOD, len(text), num_draft_tokens, generator=generator)
        num_guessed = (trials * num_draft_tokens < acceptance_length - 1).sum(-1)
        self._text, self._num_guessed = text, num_guessed.to(text.device)
        self._iteration = torch.zeros(1, dtype=torch.int64, device=text.device)
        self._places = torch.arange(1, num_draft_tokens + 2, device=text.device)[None]
        self._drafts, self._is_guessed = text[:0], text[:0] == 0

    def target(self, tokens: Tensor, slots: Tensor, start: Tensor, depths: Tensor) -> None:
        """Write the text over what the target says, `tokens` int32 [B, N] after nodes that are
        `depths` int64 [N] or [B, N] behind `start` int64 [B]."""
        tokens.copy_(self._text[slots[:, None], start[:, None] + 1 + depths])

    def prepare_drafts(self, slots: Tensor, start: Tensor) -> None:
        """Another iteration: look up what its drafts will be, behind the golden tokens at `start`
        int64 [B]."""
        self._iteration.add_(1).remainder_(_PERIOD)
        places = self._places[:, :-1]
        self._drafts = self._text[slots[:, None], start[:, None] + places]
        self._is_guessed = self._num_guessed[self._iteration, slots][:, None] >= places

    def draft(self, drafts: Tensor, node: int) -> Tensor:
        """Draft `node` of each slot, int32 [B]: the text's, or as it was drafted."""
        return torch.where(self._is_guessed[:, node - 1], self._drafts[:, node - 1], drafts)

    def append(self, drafts: Tensor, chain_len: Tensor) -> Tensor:
        """As `draft`, the draft behind a chain of `chain_len` int32 [B] drafts."""
        place = chain_len[:, None].clamp(max=self._drafts.shape[1] - 1).long()
        return torch.where(
            self._is_guessed.gather(1, place), self._drafts.gather(1, place), drafts[:, None]
        )[:, 0]

    def children(self, tokens: Tensor, logprobs: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        """Children of a tree's nodes, int32 and float32 [B, w, k], changed in place: the text's
        next token becomes the first node's likeliest, and that node is on its path too; or all stay
        as they were drafted."""
        is_guessed, token = self._is_guessed[:, depth - 1], tokens[:, 0, 0]
        torch.where(is_guessed, self._drafts[:, depth - 1], token, out=token)
        logprobs[:, 0, 0].masked_fill_(is_guessed, 0.0)
        return tokens, logprobs
