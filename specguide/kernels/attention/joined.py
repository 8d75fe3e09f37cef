"""Owns passes of two parts whose attention is planned separately: nodes to verify, and the chunks
of prompts that run in the same iteration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.kernels.attention.interface import (
    AttentionForm,
    AttentionPlan,
    ForwardContext,
    empty_output,
)


@dataclass(frozen=True, eq=False)
class JoinedContext:
    """A `PassContext` with the tokens of `first`, then those of `second`; no sequence is in
    both."""

    first: ForwardContext
    second: ForwardContext

    @cached_property
    def position_ids(self) -> Tensor:
        """See PassContext: int64 [T], those of `first`, then those of `second`."""
        return torch.cat([self.first.position_ids, self.second.position_ids])

    @cached_property
    def slot_mapping(self) -> Tensor:
        """See PassContext: int64 [T], those of `first`, then those of `second`."""
        return torch.cat([self.first.slot_mapping, self.second.slot_mapping])

    @cached_property
    def adapter_ids(self) -> Tensor | None:
        """See PassContext: int32 [T], those of `first`, then those of `second`."""
        first, second = self.first.adapter_ids, self.second.adapter_ids
        return None if first is None or second is None else torch.cat([first, second])

    @cached_property
    def image_rows(self) -> Tensor | None:
        """See PassContext: int64 [T], those of `first`, then those of `second`."""
        rows = self.first.image_rows, self.second.image_rows
        if rows == (None, None):
            return None
        parts = self.first, self.second
        return torch.cat(
            [
                torch.full_like(part.position_ids, -1) if given is None else given
                for part, given in zip(parts, rows, strict=True)
            ]
        )

    @cached_property
    def rotary_positions(self) -> Tensor | None:
        """See PassContext: those of `first`, then those of `second`."""
        first, second = self.first.rotary_positions, self.second.rotary_positions
        if first is None or second is None:
            return None
        return torch.cat([axes.expand(3, -1) for axes in (first, second)], dim=1)

    @cached_property
    def parts(self) -> list[tuple[slice, ForwardContext]]:
        """See PassContext."""
        num_first = len(self.first.position_ids)
        num_tokens = num_first + len(self.second.position_ids)
        return [(slice(0, num_first), self.first), (slice(num_first, num_tokens), self.second)]

    @cached_property
    def plan(self) -> AttentionPlan:
        """The plan of both parts."""
        second, first = self.first.attention.pair(self.second, self.first)
        return _JoinedPlan(first, second, len(self.first.position_ids))


@dataclass(frozen=True, eq=False)
class _JoinedPlan:
    """The plans of both parts behind one interface. num_first: number of tokens in the first
    part"""

    first: AttentionPlan
    second: AttentionPlan
    num_first: int

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor:
        if output is None:
            output = empty_output(query, value_cache)
        sizes = [self.num_first, len(query) - self.num_first]
        (first, second), (first_out, second_out) = query.split(sizes), output.split(sizes)
        self.second.run(second, key_cache, value_cache, form, second_out)
        self.first.run(first, key_cache, value_cache, form, first_out)
        return output
