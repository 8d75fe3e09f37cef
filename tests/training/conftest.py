"""Owns the target that heads are trained for in tests."""

from __future__ import annotations

import pytest
import torch
from training_examples import EOS, HIDDEN, VOCAB
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=2,
        eos_token_id=EOS,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)
