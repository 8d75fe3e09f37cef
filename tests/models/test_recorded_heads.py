"""Draft heads as they are published: their folders load, and their draft logits are those of the
code that publishes them (`tests/support/record_draft_heads.py`)."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from eagle3_heads import NUM_LAYERS
from paging import Sequences
from recorded_heads import (
    HIDDEN,
    LENGTH,
    NUM_STEPS,
    VOCAB_SIZE,
    inputs,
    load_record,
    save_case,
)
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from specguide.errors import CheckpointError
from specguide.models import Decoder, Eagle3Head

RECORD = load_record()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    folder = tmp_path_factory.mktemp("target")
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=HIDDEN,
        intermediate_size=8,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return Decoder.load(folder)


def step_by_step(head: Eagle3Head, num_steps: int) -> Tensor:
    """Draft logits [num_steps, drafts], each step from the features of the one before."""
    ids, aux = inputs()
    sequences = Sequences(1, LENGTH + NUM_STEPS)
    cache = sequences.cache(head.config)
    features, tokens, logits = head.fuse(aux), ids[:LENGTH], []
    for step in range(num_steps):
        context = sequences.extend([len(tokens)])
        features, normed = head.forward(tokens, features, context, cache)
        logits.append(head.draft_logits(normed[-1:]))
        features, tokens = features[-1:], ids[LENGTH + step : LENGTH + step + 1]
    return torch.cat(logits)


def in_one_pass(head: Eagle3Head, num_steps: int) -> Tensor:
    """Draft logits [num_steps, drafts] of a P-EAGLE head."""
    ids, aux = inputs()
    assert head.mask_token_id is not None
    masks = torch.full((num_steps - 1,), head.mask_token_id)
    features = torch.cat((head.fuse(aux), head.mask_feature.expand(num_steps - 1, -1)))
    sequences = Sequences(1, LENGTH + NUM_STEPS)
    context = sequences.extend([len(features)])
    tokens = torch.cat((ids[:LENGTH], masks))
    _, normed = head.forward(tokens, features, context, sequences.cache(head.config))
    return head.draft_logits(normed[-num_steps:])


@torch.inference_mode()
@pytest.mark.parametrize("name", RECORD)
def test_draft_logits_are_those_of_the_code_that_publishes_them(
    name: str, target: Decoder, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head = Eagle3Head.load(save_case(tmp_path, RECORD[name]), target)
    expected = torch.tensor(RECORD[name]["logits"])
    draft = step_by_step if head.mask_token_id is None else in_one_pass
    torch.testing.assert_close(draft(head, len(expected)), expected, atol=1e-4, rtol=1e-4)
    assert expected.std() > 0.3


@pytest.mark.parametrize("name", RECORD)
def test_a_field_that_nobody_knows_is_refused_wherever_it_stands(
    name: str, target: Decoder, tmp_path: Path
) -> None:
    config = RECORD[name]["config"]
    nested = ("transformer_layer_config", "eagle_config", "speculators_config")
    places = [{"nap_time": 3}] + [
        {place: {**config.get(place, {}), "nap_time": 3}} for place in nested if place in config
    ]
    for place in places:
        folder = save_case(tmp_path, {**RECORD[name], "config": {**config, **place}})
        with pytest.raises(CheckpointError, match=r"'nap_time'.* is unknown"):
            Eagle3Head.load(folder, target)
