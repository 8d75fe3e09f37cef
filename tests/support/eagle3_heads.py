"""Random EAGLE-3 heads in the published format, and a target for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from checkpoint_files import Weights
from transformers import LlamaConfig, LlamaForCausalLM

from specguide.models import Decoder

VOCAB_SIZE, TARGET_HIDDEN, NUM_LAYERS = 90, 24, 6
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "vocab_size": VOCAB_SIZE,
    "draft_vocab_size": 33,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5000.0,
    "max_position_embeddings": 16,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def load_target(folder: Path) -> Decoder:
    """A random Llama of NUM_LAYERS layers."""
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB_SIZE,
            hidden_size=TARGET_HIDDEN,
            intermediate_size=32,
            num_hidden_layers=NUM_LAYERS,
            num_attention_heads=2,
            max_position_embeddings=64,
            initializer_range=0.3,
        )
    ).save_pretrained(folder)
    return Decoder.load(folder)


def random_head(config: dict[str, Any], num_aux_layers: int = 3) -> Weights:
    """Weights under their published names, with a pruned vocabulary."""
    torch.manual_seed(1)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries, keys = (
        config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads")
    )
    drafts = config["draft_vocab_size"]
    shapes = {
        "fc": (hidden, num_aux_layers * TARGET_HIDDEN),
        "lm_head": (drafts, hidden),
        "midlayer.self_attn.q_proj": (queries, 2 * hidden),
        "midlayer.self_attn.k_proj": (keys, 2 * hidden),
        "midlayer.self_attn.v_proj": (keys, 2 * hidden),
        "midlayer.self_attn.o_proj": (hidden, queries),
        "midlayer.mlp.gate_proj": (inner, hidden),
        "midlayer.mlp.up_proj": (inner, hidden),
        "midlayer.mlp.down_proj": (hidden, inner),
    }
    weights = {f"{name}.weight": torch.randn(shape) * 0.3 for name, shape in shapes.items()}
    for name in (
        "norm",
        "midlayer.input_layernorm",
        "midlayer.hidden_norm",
        "midlayer.post_attention_layernorm",
    ):
        weights[f"{name}.weight"] = torch.rand(hidden) + 0.5
    target_ids = torch.randperm(VOCAB_SIZE)[:drafts].sort().values
    weights["d2t"] = target_ids - torch.arange(drafts)
    weights["t2d"] = torch.zeros(VOCAB_SIZE, dtype=torch.bool).index_fill_(0, target_ids, True)
    return weights
