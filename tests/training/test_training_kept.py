"""Training from states that the target was asked for once: the same loss as asking it each time,
without logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from training_examples import EOS, VOCAB, some_examples
from transformers import LlamaForCausalLM

from training.data.draft_data import PackPlan, answer_greedily
from training.evaluate.acceptance import measure
from training.heads.eagle3 import load_head, save_head
from training.heads.linear_loss import linear_loss, scaled_softmax_
from training.train import eagle3, kept_states
from training.train.eagle3 import new_head
from training.train.head_trainer import Trainer
from training.train.kept_states import KeptTrainer, keep_states


@dataclass(frozen=True)
class TrainPlan(eagle3.TrainPlan):
    num_anchors: int = 40


PLAN = TrainPlan(
    num_steps=300,
    num_rows=2,
    row_len=40,
    warmup_steps=4,
    unroll_steps=3,
    draft_vocab_size=0,
    intermediate_size=40,
    num_key_value_heads=2,
    learning_rate=1e-2,
    aux_layers=(1, 2, 4),
    prompt_rate=0.0,
    text_weight=0.3,
)


def test_the_loss_behind_an_output_matrix() -> None:
    """Value and gradient are those of logits that are kept."""
    torch.manual_seed(2)
    states, output = torch.randn(7, 8, requires_grad=True), torch.randn(30, 8)
    wanted, shares = torch.randint(30, (7, 3)), torch.rand(7, 3)
    wanted[0, 1] = wanted[0, 0]
    likelihood = (states @ output.T).log_softmax(-1)
    expected = -(likelihood.gather(1, wanted) * shares).sum()
    (gradient,) = torch.autograd.grad(2 * expected, states)
    found = linear_loss(states, output, wanted, shares)
    torch.testing.assert_close(found, expected)
    (found_gradient,) = torch.autograd.grad(2 * found, states)
    torch.testing.assert_close(found_gradient, gradient)


def test_scaled_softmax_in_place() -> None:
    torch.manual_seed(3)
    logits, scale = 5 * torch.randn(4, 50), torch.rand(4)
    changed = logits.clone()
    sums = scaled_softmax_(changed, scale)
    torch.testing.assert_close(sums, logits.logsumexp(-1))
    torch.testing.assert_close(changed, logits.softmax(-1) * scale[:, None])


def test_the_loss_is_that_of_asking_the_target_again(
    target: LlamaForCausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_states, "NUM_LIKELY", VOCAB)
    head = new_head(target, PLAN, torch.arange(VOCAB))
    examples = some_examples(6)
    plan = replace(PLAN, num_rows=3)
    kept, asked = (kind(head, target, plan, tmp_path) for kind in (KeptTrainer, Trainer))
    rows = keep_states(target, examples, PackPlan(40, 3, 0.0), head.config.aux_layers)
    batch = rows.batch(torch.arange(len(rows)), 40, torch.Generator().manual_seed(1))
    losses = kept.loss(batch), asked.loss(batch.packed)
    torch.testing.assert_close(*losses)
    found = (torch.autograd.grad(x, [*head.parameters()]) for x in losses)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_few_anchors_are_drawn_among_all(target: LlamaForCausalLM) -> None:
    rows = keep_states(target, some_examples(4), PackPlan(40, 2, 0.0), (1, 2, 4))
    chosen = torch.tensor([1, 0])
    draws = [
        rows.batch(chosen, 3, torch.Generator().manual_seed(seed)).packed.anchors for seed in (1, 2)
    ]
    assert not torch.equal(*draws)
    assert all(rows.can_anchor[chosen].gather(1, drawn).all() for drawn in draws)


def test_a_head_learns_from_kept_states(target: LlamaForCausalLM, tmp_path: Path) -> None:
    """It is stored without an output matrix, and goes on from its checkpoint."""
    examples = answer_greedily(target, some_examples(4, seed=3), [EOS], 10)
    ids = torch.arange(VOCAB)
    before = measure(new_head(target, PLAN, ids), target, examples, 3, PLAN.row_len)
    trainer = KeptTrainer(new_head(target, PLAN, ids), target, replace(PLAN), tmp_path)
    trainer.train(examples)
    assert trainer.step == PLAN.num_steps
    save_head(trainer.head, tmp_path)
    head = load_head(tmp_path, target.get_output_embeddings().weight)
    assert not any(name.startswith(("lm_head", "output", "d2t")) for name in head.state_dict())
    after = measure(head, target, examples, 3, PLAN.row_len)
    assert after.acceptance_length > max(2.5, before.acceptance_length)
