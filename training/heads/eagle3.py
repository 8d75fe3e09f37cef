"""Owns the EAGLE3 draft head as it is trained: the module and its checkpoint folder.

Parameter names and shapes are those of the published checkpoints (EAGLE-3, arXiv 2503.01840;
SafeAILab/EAGLE), so the state dict is the file. H: hidden size, V: target vocabulary, D: draft
vocabulary, B: rows, L: row length.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from training.heads.head_layers import MLP, Attention, HeadConfig


class MidLayer(nn.Module):
    """The one decoder layer; its residual stream is the feature, the embedding enters attention
    only."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c, 2 * c.hidden_size, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c)

    def beside(self, embeds: Tensor, feature: Tensor) -> Tensor:
        """[B, N, 2H]: the normed embedding, then the normed feature."""
        return torch.cat((self.input_layernorm(embeds), self.hidden_norm(feature)), dim=-1)

    def finish(self, feature: Tensor, attended: Tensor) -> Tensor:
        hidden = feature + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3Head(nn.Module):
    """fc → midlayer → norm → lm_head over the draft vocabulary; draft id d is target id d +
    d2t[d]. A head that drafts every token may use the target's output matrix, which then is no
    part of its checkpoint."""

    d2t: Tensor
    t2d: Tensor
    output: Tensor

    def __init__(self, config: HeadConfig, draft_ids: Tensor, output: Tensor | None = None) -> None:
        """draft_ids: [D] int64, ascending target ids that can be drafted; output: [V, H] the
        target's output matrix, which stays as it is, where D = V."""
        super().__init__()
        self.config = config
        self.fc = nn.Linear(3 * config.hidden_size, config.hidden_size, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.shares_output = output is not None
        if output is None:
            self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.register_buffer("output", output, persistent=False)
        stored = not self.shares_output
        d2t = draft_ids - torch.arange(config.draft_vocab_size)
        t2d = torch.zeros(config.vocab_size, dtype=torch.bool).index_fill_(0, draft_ids, True)
        self.register_buffer("d2t", d2t, persistent=stored)
        self.register_buffer("t2d", t2d, persistent=stored)

    @property
    def draft_ids(self) -> Tensor:
        """[D] int64 target ids of the draft vocabulary."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    @property
    def self_attn(self) -> Attention:
        return self.midlayer.self_attn

    def features(self, aux: Tensor) -> Tensor:
        """The target's tapped states [B, L, 3H] → what the first step reads [B, L, H]."""
        # under autocast too the residual keeps full precision
        return self.fc(aux).to(self.norm.weight.dtype)

    def enter(self, embeds: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, H] each → the residual stream [B, N, H] and what attention reads [B, N, 2H]."""
        return feature, self.midlayer.beside(embeds, feature)

    def leave(self, residual: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, H] each → the next feature and what `logits` reads, [B, N, H] each."""
        hidden = self.midlayer.finish(residual, attended)
        return hidden, self.norm(hidden)

    def logits(self, normed: Tensor) -> Tensor:
        """[…, H] → draft logits […, D]."""
        return F.linear(normed, self.output) if self.shares_output else self.lm_head(normed)


def published_config(config: HeadConfig) -> dict[str, object]:
    """The published config.json, plus `head_dim` and the tapped layers under the name that vLLM
    reads."""
    shape = asdict(config)
    shape["eagle_aux_hidden_state_layer_ids"] = list(shape.pop("aux_layers"))
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **shape,
    }


def read_config(stated: dict[str, object]) -> HeadConfig:
    """The shape that `published_config` wrote."""
    known = {name: stated[name] for name in HeadConfig.__dataclass_fields__ if name in stated}
    layers = stated["eagle_aux_hidden_state_layer_ids"]
    return HeadConfig(**known, aux_layers=tuple(layers))  # type: ignore[arg-type]


def save_head(head: Eagle3Head, folder: Path) -> None:
    """Write config.json and model.safetensors: weights bfloat16; with an output matrix of its own
    d2t int64 and t2d bool too."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (x.to(torch.bfloat16) if x.is_floating_point() else x).cpu().contiguous()
        for name, x in head.state_dict().items()
    }
    (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(published_config(head.config), indent=2) + "\n")


def load_head(folder: Path, output: Tensor | None = None) -> Eagle3Head:
    """The head that `save_head` wrote, weights float32. output: [V, H] the target's output matrix,
    on the CPU, for a head that has none."""
    config = read_config(json.loads((folder / "config.json").read_text()))
    tensors = load_file(folder / "model.safetensors")
    draft_ids = tensors.get("d2t", 0) + torch.arange(config.draft_vocab_size)
    head = Eagle3Head(config, draft_ids, None if "lm_head.weight" in tensors else output)
    head.load_state_dict(
        {name: x.float() if x.is_floating_point() else x for name, x in tensors.items()}
    )
    return head
