"""Owns what there is room for: SchedulerLimits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from specguide.piggyback import NEVER_PIGGYBACK, PiggybackLimits


@dataclass(frozen=True)
class SchedulerLimits:
    """What there is room for.

    max_batch_size:      slots
    max_model_len:       longest prompt plus output, tokens
    max_prefill_tokens:  most tokens of prompts in an iteration
    num_draft_tokens:    K, most that are accepted at once
    num_draft_positions: room that every request needs for drafts beyond its last token, ≥ K
    page_size:           tokens a page
    piggyback:           what of prompts can be computed beside a decode iteration
    max_step_s:          longest time that an iteration is to take, seconds; prompts are computed in
                         chunks that fit
    min_slowdown:        how many times as long as without prompts it may take in any case
    """

    max_batch_size: int
    max_model_len: int
    max_prefill_tokens: int
    num_draft_tokens: int
    num_draft_positions: int
    page_size: int
    piggyback: PiggybackLimits = NEVER_PIGGYBACK
    max_step_s: float = math.inf
    min_slowdown: float = 0.0

    @cached_property
    def most_tokens(self) -> int:
        """Most tokens that an iteration gives."""
        return self.num_draft_tokens + 1

    @cached_property
    def num_nodes(self) -> int:
        """Nodes of a request in a decode iteration: its last token and its drafts."""
        return 1 + self.num_draft_positions

    @cached_property
    def num_behind(self) -> int:
        """Positions behind its last token that a request may come to: one that has ended runs
        along until the host knows."""
        return self.most_tokens + self.num_draft_positions
