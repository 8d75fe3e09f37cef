"""What verifications find in their slots, at random, for the tests of the kernels that accept."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specguide.kernels.slot_rows import MAX_END_IDS
from specguide.sampling import AcceptState

Draw = Callable[..., Tensor]


def integers(generator: torch.Generator) -> Draw:
    """draw(low, high, *shape): int64, low … high - 1."""

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    return draw


def accept_state(draw: Draw, num_slots: int, num_tokens: int, end_ids: Tensor) -> AcceptState:
    """Some slots are late, some inactive, some near their ends. end_ids: [S], of each slot, or of
    all."""
    lengths = draw(0, 90, num_slots)
    all_end_ids = torch.full((num_slots, MAX_END_IDS), -2, dtype=torch.int32)
    all_end_ids[:, 0] = end_ids
    return AcceptState(
        tokens=draw(-1, 4, num_slots, num_tokens).int(),
        late=(draw(0, 5, num_slots) == 0).to(torch.uint8),
        active=draw(0, 5, num_slots) > 0,
        lengths=lengths,
        max_lens=lengths + draw(1, 8, num_slots),
        end_ids=all_end_ids,
        num_accepted=draw(0, 4, num_slots).int(),
    )
