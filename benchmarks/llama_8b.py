"""Llama-3.1-8B and an EAGLE-3 head for it, of random weights: what speed is measured on, and how fast it could be."""

from __future__ import annotations

from typing import Any

import torch

from specguide.models import Decoder, Eagle3Head
from specguide.models.config import ModelConfig
from specguide.models.eagle3 import OptionalParts
from specguide.models.eagle3_config import Eagle3Config

LLAMA_8B: dict[str, Any] = dict(
    architectures=["LlamaForCausalLM"], hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
    num_attention_heads=32, num_key_value_heads=8, head_dim=128, vocab_size=128_256, rms_norm_eps=1e-5,
    rope_theta=500_000.0, max_position_embeddings=131_072, tie_word_embeddings=False,
    rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=8192))
TINY = LLAMA_8B | dict(hidden_size=64, intermediate_size=128, num_hidden_layers=6, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=16)
DRAFT_VOCAB_SIZE = 32_000


def random_models(config: dict[str, Any], device: torch.device, dtype: torch.dtype, max_len: int
                  ) -> tuple[Decoder, Eagle3Head]:
    """Target and head of random weights, for contexts of up to `max_len` tokens."""
    torch.manual_seed(0)
    target = Decoder(ModelConfig.from_hf(config), device=device, dtype=dtype, max_positions=max_len)
    head = Eagle3Head(Eagle3Config.from_hf(config | dict(draft_vocab_size=DRAFT_VOCAB_SIZE)), target,
                      OptionalParts(embed_tokens=False, lm_head=True, d2t=True, t2d=True))
    for destination in (*target.destinations().values(), *head.destinations().values()):
        tensor = destination.tensor
        tensor.fill_(1) if tensor.ndim == 1 else tensor.normal_(std=0.02)
    head.target_ids = torch.randperm(128_000)[:DRAFT_VOCAB_SIZE].sort().values.to(device, torch.int32)
    return target, head


def num_bytes_read(target: Decoder, head: Eagle3Head, num_drafts: int, num_cached: float) -> float:
    """What an iteration must read once: weights, the head's once for each draft, and keys and values.

    num_cached: tokens in the cache, of all requests
    """
    config = target.config
    kv = 2 * config.num_kv_heads * config.head_dim * target.dtype.itemsize * num_cached
    total = _num_bytes(target) + config.num_layers * kv
    if num_drafts:
        fc = head.fc.weight.nbytes
        total += num_drafts * (_num_bytes(head) - fc) + fc + num_drafts * kv
    return total


def _num_bytes(model: Decoder | Eagle3Head) -> int:
    return sum(d.tensor.nbytes for name, d in model.destinations().items() if "embed_tokens" not in name)
