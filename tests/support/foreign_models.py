"""Architectures of transformers that no family here implements: those that the fallback runs, and
those that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

VOCAB_SIZE = 97

SETTINGS: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.25,
    "attn_implementation": "eager",
    "pad_token_id": None,
    "eos_token_id": 2,
    "bos_token_id": 1,
}

_WINDOWS = {
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}

RUN: dict[str, dict[str, Any]] = {
    "Apertus": {},
    "Arcee": {},
    "BitNet": {},
    "Cohere": {},
    "Cohere2": _WINDOWS,
    "Ernie4_5": {"head_dim": 16},
    "Exaone4": _WINDOWS,
    "GPTNeoX": {},
    "Gemma": {"head_dim": 16},
    "Helium": {"head_dim": 16},
    "HunYuanDenseV1": {"head_dim": 16},
    "Nemotron": {},
    "OPT": {"word_embed_proj_dim": 32, "ffn_dim": 48},
    "Olmo": {},
    "Persimmon": {},
    "Phi": {},
    "SeedOss": {"head_dim": 16},
    "StableLm": {},
    "Starcoder2": {"sliding_window": 7},
    "VaultGemma": {
        "head_dim": 16,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
        **_WINDOWS,
    },
}
"""Settings in addition to SETTINGS, by the name before `ForCausalLM`."""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "Bloom": ({}, "does not attend through transformers' attention interface"),
    "DiffLlama": ({}, "layer 0 computes attention twice"),
    "Falcon": ({}, "cannot be built with another implementation of attention"),
    "Mamba": ({}, "layers of kind 'linear_attention' are not supported"),
    "MiniCPM3": ({}, "values have another size than keys"),
    "Qwen2Moe": (
        {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
        "a mixture of experts is not supported",
    ),
}
"""The same, with words of the refusal."""


def foreign_model(name: str, **settings: Any) -> PreTrainedModel:
    """A small model in which every weight matters."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SETTINGS, **settings})
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.uniform_(-1.0, 1.5)
    return model


def save_foreign(name: str, folder: Path, **settings: Any) -> PreTrainedModel:
    """The same model, and its folder."""
    model = foreign_model(name, **settings)
    model.save_pretrained(folder)
    return model
