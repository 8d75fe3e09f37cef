"""Owns forced acceptance: for timing on random weights, which hardly ever agree with a drafter."""

from __future__ import annotations

import torch
from torch import Tensor

_PERIOD = 1024


class ForcedAcceptance:
    """Makes the target agree with its drafter as often as a trained pair would, whatever the weights say.

    Each iteration of each slot accepts as many drafts as a seeded pattern says, drawn from the binomial distribution
    of K trials, or fewer where the grammar forbids a draft.

    acceptance_length: mean of the pattern, golden token included, 1 to K + 1
    """

    def __init__(self, acceptance_length: float, num_draft_tokens: int, max_batch_size: int, device: torch.device,
                 seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        trials = torch.rand(_PERIOD, max_batch_size, num_draft_tokens, generator=generator)
        self._pattern = (trials < (acceptance_length - 1) / num_draft_tokens).sum(-1).to(device)
        self._iteration = torch.zeros(1, dtype=torch.int64, device=device)
        self._drafts = torch.arange(num_draft_tokens, device=device)

    def apply(self, target_tokens: Tensor, drafts: Tensor, allowed: Tensor, slots: Tensor) -> None:
        """Write drafts over what the target says, in place.

        target_tokens: int32 [B, K + 1]
        drafts:        int32 [B, K], -1 for none
        allowed:       bool [B, K], the grammar allows the draft
        slots:         int64 [B]
        """
        num_forced = self._pattern[self._iteration % _PERIOD][0, slots]
        is_forced = (self._drafts < num_forced[:, None]) & allowed & (drafts >= 0)
        target_tokens[:, :-1] = torch.where(is_forced, drafts, target_tokens[:, :-1])
        self._iteration += 1
