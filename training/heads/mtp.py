"""Owns the multi-token-prediction head as it is trained: the module and its checkpoint folder.

Parameter names and shapes are those of MiMo-7B's published checkpoint (`model.mtp_layers.0.*`);
`specguide.models.mtp` says which forward pass they mean. H: hidden size, V: vocabulary, B: rows, N:
positions.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from training.heads.head_layers import MLP, Attention, HeadConfig

PREFIX = "model.mtp_layers.0."


class MtpHead(nn.Module):
    """input_proj of [hidden, embedding] → one decoder layer → final_layernorm; the target's own
    output matrix."""

    output: Tensor
    t2d: Tensor

    def __init__(self, config: HeadConfig, output: Tensor) -> None:
        """output: [V, H] the target's output matrix, which stays as it is."""
        super().__init__()
        self.config = config
        size, eps = config.hidden_size, config.rms_norm_eps
        self.token_layernorm, self.hidden_layernorm = nn.RMSNorm(size, eps), nn.RMSNorm(size, eps)
        self.input_proj = nn.Linear(2 * size, size, bias=False)
        self.input_layernorm = nn.RMSNorm(size, eps)
        self.self_attn = Attention(config, size, bias=True)
        self.post_attention_layernorm = nn.RMSNorm(size, eps)
        self.mlp = MLP(config)
        self.final_layernorm = nn.RMSNorm(size, eps)
        self.register_buffer("output", output, persistent=False)
        self.register_buffer(
            "t2d", torch.ones(config.vocab_size, dtype=torch.bool), persistent=False
        )

    @property
    def draft_ids(self) -> Tensor:
        """[V] int64: it drafts every token."""
        return torch.arange(len(self.t2d), device=self.t2d.device)

    def features(self, aux: Tensor) -> Tensor:
        """The target's last hidden states, before its final norm, are what the first step reads."""
        return aux.to(self.final_layernorm.weight.dtype)

    def enter(self, embeds: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, H] each → the residual stream and what attention reads, [B, N, H] each."""
        both = torch.cat((self.hidden_layernorm(feature), self.token_layernorm(embeds)), dim=-1)
        residual = self.input_proj(both).to(self.final_layernorm.weight.dtype)
        return residual, self.input_layernorm(residual)

    def leave(self, residual: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, H] each → the next feature, which is also what `logits` reads, [B, N, H]."""
        hidden = residual + attended
        feature = self.final_layernorm(hidden + self.mlp(self.post_attention_layernorm(hidden)))
        return feature, feature

    def logits(self, normed: Tensor) -> Tensor:
        """[…, H] → draft logits […, V]."""
        return F.linear(normed, self.output)


def published_config(config: HeadConfig) -> dict[str, object]:
    """config.json as MiMo-7B has it, for the folder of a head alone."""
    shape = asdict(config)
    (num_layers,) = shape.pop("aux_layers")
    del shape["draft_vocab_size"]
    return {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "mimo",
        "num_nextn_predict_layers": 1,
        "num_hidden_layers": num_layers,
        "hidden_act": "silu",
        "attention_bias": True,
        "rope_scaling": None,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **shape,
    }


def read_config(stated: dict[str, Any]) -> HeadConfig:
    """The shape that `published_config` wrote."""
    known = {name: stated[name] for name in HeadConfig.__dataclass_fields__ if name in stated}
    return HeadConfig(
        **known,
        draft_vocab_size=stated["vocab_size"],
        aux_layers=(stated["num_hidden_layers"],),
    )


def save_head(head: MtpHead, folder: Path) -> None:
    """Write config.json and model.safetensors, weights bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        PREFIX + name: x.to(torch.bfloat16).cpu().contiguous()
        for name, x in head.state_dict().items()
    }
    (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(published_config(head.config), indent=2) + "\n")


def load_head(folder: Path, output: Tensor) -> MtpHead:
    """The head that `save_head` wrote, weights float32, on the device of `output` [V, H]."""
    head = MtpHead(read_config(json.loads((folder / "config.json").read_text())), output)
    tensors = load_file(folder / "model.safetensors")
    head.load_state_dict({name.removeprefix(PREFIX): x.float() for name, x in tensors.items()})
    return head.to(output.device)
