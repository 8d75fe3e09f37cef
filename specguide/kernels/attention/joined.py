"""Owns passes of two parts whose attention is planned apart: nodes that are verified, and chunks of
prompts beside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.kernels.attention.interface import AttentionPlan, ForwardContext


@dataclass(frozen=True, eq=False)
class JoinedContext:
    """A `PassContext` of the tokens of `first`, then those of `second`: no sequence is in both."""

    first: ForwardContext
    second: ForwardContext

    @cached_property
    def position_ids(self) -> Tensor:
        """int64 [T]"""
        return torch.cat([self.first.position_ids, self.second.position_ids])

    @cached_property
    def slot_mapping(self) -> Tensor:
        """int64 [T]"""
        return torch.cat([self.first.slot_mapping, self.second.slot_mapping])

    @cached_property
    def plan(self) -> AttentionPlan:
        """One after the other."""
        return _JoinedPlan(self.first.plan, self.second.plan, len(self.first.position_ids))


@dataclass(frozen=True, eq=False)
class _JoinedPlan:
    """num_first: tokens of the first part"""

    first: AttentionPlan
    second: AttentionPlan
    num_first: int

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        *,
        scale: float,
        sliding_window: int | None = None,
    ) -> Tensor:
        parts = query.split([self.num_first, len(query) - self.num_first])
        return torch.cat(
            [
                plan.run(part, key_cache, value_cache, scale=scale, sliding_window=sliding_window)
                for plan, part in zip((self.first, self.second), parts, strict=True)
            ]
        )
