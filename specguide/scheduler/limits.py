"""Owns SchedulerLimits: how much may run at once, and in one iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from specguide.piggyback import NEVER_PIGGYBACK, PiggybackLimits


@dataclass(frozen=True)
class SchedulerLimits:
    """How much may run at once, and in one iteration.

    max_batch_size:      number of slots
    max_model_len:       longest prompt plus output, tokens
    max_prefill_tokens:  most prompt tokens in an iteration
    num_draft_tokens:    most drafts that are accepted at once
    num_draft_positions: positions that every request needs for drafts beyond its last token; not
                         less than num_draft_tokens
    page_size:           tokens a page
    piggyback:           how many prompt tokens a decode iteration may carry
    max_step_s:          longest time that an iteration is to take, seconds; prompts are computed in
                         chunks that fit
    state_rows:          rows of memory in which states of linear attention can be saved; None: the
                         model has no such states
    image_rows:          vectors of images that are in memory at once
    min_slowdown:        how many times as long as without prompts an iteration may take, whatever
                         max_step_s says
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
    state_rows: range | None = None
    image_rows: int = 0

    @cached_property
    def most_tokens(self) -> int:
        """Most tokens that a request gains in an iteration."""
        return self.num_draft_tokens + 1

    @cached_property
    def num_nodes(self) -> int:
        """Nodes of a request in a decode iteration: its last token and its drafts."""
        return 1 + self.num_draft_positions

    @cached_property
    def num_behind(self) -> int:
        """Positions behind its last token that a request may use. It needs more than its drafts do,
        since a request that has ended still runs until the host knows."""
        return self.most_tokens + self.num_draft_positions
