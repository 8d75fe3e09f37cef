"""Random checkpoints with an MTP head in the published format: beside its target, and in a folder
of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny
import torch
from checkpoint_files import Weights, save_checkpoint, weights_in
from transformers import Qwen2Config, Qwen2ForCausalLM

PREFIX = "model.mtp_layers.0."
CONFIG: dict[str, Any] = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    "num_nextn_predict_layers": 1,
    "vocab_size": 90,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5000.0,
    "max_position_embeddings": 64,
    "hidden_act": "silu",
    "attention_bias": True,
    "tie_word_embeddings": False,
}


def random_mtp(config: dict[str, Any], seed: int = 1) -> Weights:
    """The module's weights under their published names; biases where the family has them."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries, keys = (
        config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads")
    )
    shapes = {
        "input_proj": (hidden, 2 * hidden),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    weights = {
        f"{PREFIX}{name}.weight": torch.randn(shape, generator=generator) * 0.3
        for name, shape in shapes.items()
    }
    for name in (
        "token_layernorm",
        "hidden_layernorm",
        "input_layernorm",
        "post_attention_layernorm",
        "final_layernorm",
    ):
        weights[f"{PREFIX}{name}.weight"] = torch.rand(hidden, generator=generator) + 0.5
    if config["attention_bias"]:
        weights |= {
            f"{PREFIX}self_attn.{name}_proj.bias": torch.randn(size, generator=generator) * 0.3
            for name, size in zip("qkv", (queries, keys, keys), strict=True)
        }
    return weights


_DEEPSEEK = {
    "token_layernorm": "enorm",
    "hidden_layernorm": "hnorm",
    "input_proj": "eh_proj",
    "final_layernorm": "shared_head.norm",
}


def in_deepseeks_style(weights: Weights, num_layers: int) -> Weights:
    """The same tensors under the names of the layer behind a target's last one."""
    found = {}
    for name, tensor in weights.items():
        stem, _, kind = name.removeprefix(PREFIX).rpartition(".")
        found[f"model.layers.{num_layers}.{_DEEPSEEK.get(stem, stem)}.{kind}"] = tensor
    return found


_QWEN = {
    "token_layernorm": "pre_fc_norm_embedding",
    "hidden_layernorm": "pre_fc_norm_hidden",
    "input_proj": "fc",
    "final_layernorm": "norm",
}


def of_head_alone(weights: Weights) -> Weights:
    """Those that are not of its layer."""
    return {
        name: tensor
        for name, tensor in weights.items()
        if name.removeprefix(PREFIX).rpartition(".")[0] in _QWEN
    }


def in_qwens_style(weights: Weights, num_layers: int) -> Weights:
    """The same tensors as Qwen3-Next has them; those of a target's layer behind its first
    `num_layers` become those of the head's layer."""
    found = {}
    for name, tensor in weights.items():
        stem, _, kind = name.removeprefix(PREFIX).rpartition(".")
        behind = name.replace(f"model.layers.{num_layers}.", "mtp.layers.0.")
        found[f"mtp.{_QWEN[stem]}.{kind}" if stem in _QWEN else behind] = tensor
    return found


def save_mimo(folder: Path, config: dict[str, Any] = CONFIG) -> Path:
    """A random target with the head in the same files, as MiMo-7B is published."""
    torch.manual_seed(0)
    shape = {
        name: value for name, value in config.items() if name not in ("architectures", "model_type")
    }
    Qwen2ForCausalLM(Qwen2Config(**shape, initializer_range=0.3)).save_pretrained(folder)
    return save_checkpoint(folder, config, weights_in(folder) | random_mtp(config))


def save_tiny_head(folder: Path) -> Path:
    """A random head for the tiny target."""
    config = {
        **CONFIG,
        "vocab_size": tiny.VOCAB_SIZE,
        "hidden_size": tiny.HIDDEN,
        "head_dim": 8,
        "max_position_embeddings": 512,
    }
    return save_checkpoint(folder, config, random_mtp(config))
