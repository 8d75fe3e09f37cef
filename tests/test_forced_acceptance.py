"""Forced acceptance: the target says the text, and as much of it is guessed as was asked for."""

from __future__ import annotations

import pytest
import torch

from specguide.sampling import verify_chain
from specguide.spec.forced import ForcedAcceptance

NUM_SLOTS, K, LENGTH = 6, 3, 40


@pytest.mark.parametrize("acceptance_length", [1.0, 2.86, 4.0])
def test_the_text_is_said_and_guessed(acceptance_length: float) -> None:
    text = torch.arange(NUM_SLOTS * LENGTH, dtype=torch.int32).view(NUM_SLOTS, LENGTH)
    forced, slots = ForcedAcceptance(text, acceptance_length, K), torch.tensor([4, 0, 3])
    start, num_accepted = torch.full((3,), 7), []
    for _ in range(800):
        forced.prepare_drafts(slots, start)
        drafts = torch.stack([forced.draft(torch.full((3,), -1, dtype=torch.int32), node)
                              for node in range(1, K + 1)], dim=1)
        said = torch.full((3, K + 1), -1, dtype=torch.int32)
        forced.target(said, slots, start, torch.arange(said.shape[1]))
        assert torch.equal(said, text[slots, 8:8 + K + 1])
        num_accepted.append(verify_chain(said, drafts, torch.zeros(3, dtype=torch.bool))[0])
    assert float(torch.stack(num_accepted).float().mean()) + 1 == pytest.approx(acceptance_length, abs=0.08)


def test_without_drafts_only_the_text_is_said() -> None:
    text = torch.arange(20, dtype=torch.int32).view(1, 20)
    said = torch.zeros(1, 1, dtype=torch.int32)
    ForcedAcceptance(text, 2.86, 0).target(said, torch.tensor([0]), torch.tensor([3]), torch.tensor([0]))
    assert said.tolist() == [[4]]
