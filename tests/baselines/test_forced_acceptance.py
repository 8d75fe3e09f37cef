"""Forced acceptance: the target says the text, and as much of it is guessed as was asked for."""

from __future__ import annotations

import pytest
import torch

from benchmarks.baselines import ForcedAcceptance
from specguide.sampling import verify_chain

NUM_SLOTS, K, LENGTH = 6, 3, 40


@pytest.mark.parametrize("acceptance_length", [1.0, 2.86, 4.0])
def test_the_text_is_said_and_guessed(acceptance_length: float) -> None:
    text = torch.arange(NUM_SLOTS * LENGTH, dtype=torch.int32).view(NUM_SLOTS, LENGTH)
    forced, slots = ForcedAcceptance(text, acceptance_length, K), torch.tensor([4, 0, 3])
    start, num_accepted = torch.full((3,), 7), []
    for _ in range(800):
        forced.prepare_drafts(slots, start)
        drafts = torch.stack(
            [forced.draft(torch.full((3,), -1, dtype=torch.int32), before) for before in range(K)],
            dim=1,
        )
        said = torch.full((3, K + 1), -1, dtype=torch.int32)
        forced.target(said, slots, start, torch.arange(said.shape[1]))
        assert torch.equal(said, text[slots, 8 : 8 + K + 1])
        num_accepted.append(verify_chain(said, drafts, torch.zeros(3, dtype=torch.bool))[0])
    assert float(torch.stack(num_accepted).float().mean()) + 1 == pytest.approx(
        acceptance_length, abs=0.08
    )


def test_drafts_behind_a_chain_and_in_a_tree_are_those_of_a_chain() -> None:
    text = torch.arange(NUM_SLOTS * LENGTH, dtype=torch.int32).view(NUM_SLOTS, LENGTH)
    forced, slots = ForcedAcceptance(text, 2.5, K), torch.tensor([4, 0, 3])
    seen = set()
    for _ in range(50):
        forced.prepare_drafts(slots, torch.full((3,), 7))
        drafted = torch.tensor([-5, -6, -7], dtype=torch.int32)
        by_node = torch.stack([forced.draft(drafted, before) for before in range(K)], dim=1)
        for lengths in ([0, 1, 2], [2, 2, 0], [1, 0, 9]):  # the last one's chain is full
            chain_len = torch.tensor(lengths, dtype=torch.int32)
            expected = by_node.gather(1, chain_len[:, None].clamp(max=K - 1).long())[:, 0]
            assert torch.equal(forced.draft(drafted, chain_len), expected)
        for before in range(K):
            children = drafted[:, None, None].repeat(1, 2, 4), torch.full((3, 2, 4), -1.0)
            tokens, logprobs = forced.children(*children, before)
            assert torch.equal(tokens[:, 0, 0], by_node[:, before])
            assert torch.equal(logprobs[:, 0, 0] == 0, by_node[:, before] >= 0)
            assert (tokens.flatten(1)[:, 1:] == drafted[:, None]).all() and (
                logprobs.flatten(1)[:, 1:] == -1
            ).all()
        seen |= set((by_node >= 0).sum(1).tolist())
    assert seen == {0, 1, 2, 3}


def test_without_drafts_only_the_text_is_said() -> None:
    text = torch.arange(20, dtype=torch.int32).view(1, 20)
    said = torch.zeros(1, 1, dtype=torch.int32)
    ForcedAcceptance(text, 2.86, 0).target(
        said, torch.tensor([0]), torch.tensor([3]), torch.tensor([0])
    )
    assert said.tolist() == [[4]]
