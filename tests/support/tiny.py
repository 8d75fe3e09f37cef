"""Tiny random checkpoints in the published formats: a byte-tokenized Llama and an EAGLE3 head for
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from checkpoint_files import save_checkpoint, weights_in
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

HIDDEN, NUM_LAYERS, VOCAB_SIZE, DRAFT_VOCAB_SIZE = 32, 3, 272, 200

SETTINGS: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": NUM_LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 512,
    "eos_token_id": 256,
    "bos_token_id": None,
    "initializer_range": 0.4,
}
"""Fields of a model of any family, as transformers names them."""


def save_target(folder: Path, seed: int = 0) -> Path:
    """A Llama of random weights whose tokens are single bytes, `<|end|>` is 256."""
    save_weights(folder, seed)
    save_tokenizer(folder)
    return folder


def save_tokenizer(folder: Path) -> None:
    """Tokens are single bytes, `<|end|>` is 256."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    fast.save_pretrained(folder)


def save_weights(
    folder: Path, seed: int = 0, vocab_size: int = VOCAB_SIZE, eos_token_id: int = 256
) -> None:
    """A Llama of random weights."""
    torch.manual_seed(seed)
    settings = {**SETTINGS, "vocab_size": vocab_size, "eos_token_id": eos_token_id}
    LlamaForCausalLM(LlamaConfig(**settings)).save_pretrained(folder)


def save_exact(
    folder: Path, settings: dict[str, Any], seed: int, model: PreTrainedModel | None
) -> dict[str, torch.Tensor]:
    """Save a model, or else a Llama of these settings, with its tokenizer. Returns its weights."""
    torch.manual_seed(seed)
    model = model or LlamaForCausalLM(LlamaConfig(**settings))
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return weights_in(folder)


_HEAD_CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCAB_SIZE,
    "draft_vocab_size": DRAFT_VOCAB_SIZE,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
}


def save_head(folder: Path, seed: int = 1) -> Path:
    """A random EAGLE3 head with a pruned draft vocabulary that lacks some bytes and holds the end
    token."""
    return save_checkpoint(folder, _HEAD_CONFIG, _head_weights(seed))


def _head_weights(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.cat([torch.arange(57, 256), torch.tensor([256])])
    assert len(ids) == DRAFT_VOCAB_SIZE

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.3

    attention, mlp = "midlayer.self_attn.", "midlayer.mlp."
    return {
        "fc.weight": random(HIDDEN, 3 * HIDDEN),
        "lm_head.weight": random(DRAFT_VOCAB_SIZE, HIDDEN),
        attention + "q_proj.weight": random(32, 2 * HIDDEN),
        attention + "k_proj.weight": random(16, 2 * HIDDEN),
        attention + "v_proj.weight": random(16, 2 * HIDDEN),
        attention + "o_proj.weight": random(HIDDEN, 32),
        mlp + "gate_proj.weight": random(64, HIDDEN),
        mlp + "up_proj.weight": random(64, HIDDEN),
        mlp + "down_proj.weight": random(HIDDEN, 64),
        **{
            name: torch.ones(HIDDEN)
            for name in (
                "midlayer.hidden_norm.weight",
                "midlayer.input_layernorm.weight",
                "midlayer.post_attention_layernorm.weight",
                "norm.weight",
            )
        },
        "d2t": ids - torch.arange(DRAFT_VOCAB_SIZE),
        "t2d": torch.isin(torch.arange(VOCAB_SIZE), ids),
    }
