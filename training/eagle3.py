"""Owns the EAGLE3 draft head as it is trained: the module, its multi-step unroll, its loss, its checkpoint folder.

Parameter names and shapes are those of the published checkpoints (EAGLE-3, arXiv 2503.01840; SafeAILab/EAGLE), so the
state dict is the file. H: hidden size, V: target vocabulary, D: draft vocabulary, B: rows, L: row length, Q: anchors.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

STEP_DECAY = 0.8


@dataclass(frozen=True)
class HeadConfig:
    """Shape of a head. `aux_layers`: the target layers whose *input* is tapped (n: output of the last of n layers)."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    aux_layers: tuple[int, int, int]
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    def to_json(self) -> dict[str, object]:
        """The published config.json, plus `head_dim` and the tapped layers under the name that vLLM reads."""
        shape = asdict(self)
        shape["eagle_aux_hidden_state_layer_ids"] = list(shape.pop("aux_layers"))
        return {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
                "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "rope_scaling": None,
                "tie_word_embeddings": False, "torch_dtype": "bfloat16", **shape}

    @staticmethod
    def from_json(config: dict[str, object]) -> HeadConfig:
        known = {name: config[name] for name in HeadConfig.__dataclass_fields__ if name in config}
        layers = config["eagle_aux_hidden_state_layer_ids"]
        return HeadConfig(**known, aux_layers=tuple(layers))  # type: ignore[arg-type]


@dataclass(frozen=True)
class PackedBatch:
    """Documents packed into rows; a row's documents do not see each other and each starts at position 0.

    input_ids, position_ids, document_ids: [B, L] int64; document_ids is -1 on padding
    anchors:     [B, Q] int64, row indices t at which drafting starts: feature t, golden token t+1
    anchor_mask: [B, Q] bool, False where `anchors` is padding (index 0)
    """

    input_ids: Tensor
    position_ids: Tensor
    document_ids: Tensor
    anchors: Tensor
    anchor_mask: Tensor

    def to(self, device: torch.device) -> PackedBatch:
        return PackedBatch(*(getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__))

    def visible(self) -> Tensor:
        """[B, L, L] bool: key j is visible to query t when it is not later and of the same document."""
        length = self.input_ids.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=self.input_ids.device).tril()
        return causal & (self.document_ids[:, :, None] == self.document_ids[:, None, :])

    def ahead(self, distance: int) -> tuple[Tensor, Tensor]:
        """Row indices `distance` tokens after the anchors, and where both lie in one document; both [B, Q]."""
        index = self.anchors + distance
        inside = index < self.input_ids.shape[1]
        index = index.clamp(max=self.input_ids.shape[1] - 1)
        same = self.document_ids.gather(1, index) == self.document_ids.gather(1, self.anchors)
        return index, inside & same & self.anchor_mask


def take(states: Tensor, index: Tensor) -> Tensor:
    """states [B, L, X] at index [B, Q] → [B, Q, X]."""
    return states.gather(1, index[..., None].expand(-1, -1, states.shape[-1]))


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; queries, keys and values read the embedding beside the feature."""

    frequencies: Tensor

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.head_dim, self.num_heads, self.num_kv_heads = c.head_dim, c.num_attention_heads, c.num_key_value_heads
        self.q_proj = nn.Linear(2 * c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(2 * c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(2 * c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)
        frequencies = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float32) / c.head_dim)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x [B, heads, N, head_dim] turned by its positions [B, N], halves paired as in Llama."""
        angles = (positions[:, None, :, None].float() * self.frequencies).repeat(1, 1, 1, 2)
        left, right = x.chunk(2, dim=-1)
        return x * angles.cos().to(x.dtype) + torch.cat((-right, left), dim=-1) * angles.sin().to(x.dtype)

    def split(self, x: Tensor) -> Tensor:
        """[B, N, heads * head_dim] → [B, heads, N, head_dim]."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.rotate(self.split(self.q_proj(x)), positions)

    def keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.rotate(self.split(self.k_proj(x)), positions), self.split(self.v_proj(x))
        group = self.num_heads // self.num_kv_heads
        return keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask[:, None])
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """The gated SiLU block of Llama."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class MidLayer(nn.Module):
    """The one decoder layer; its residual stream is the feature, the embedding enters attention only."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c)

    def beside(self, embeds: Tensor, feature: Tensor) -> Tensor:
        """[B, N, 2H]: the normed embedding, then the normed feature."""
        return torch.cat((self.input_layernorm(embeds), self.hidden_norm(feature)), dim=-1)

    def finish(self, feature: Tensor, attended: Tensor) -> Tensor:
        hidden = feature + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3Head(nn.Module):
    """fc → midlayer → norm → lm_head over the draft vocabulary; draft id d is target id d + d2t[d]."""

    d2t: Tensor
    t2d: Tensor

    def __init__(self, config: HeadConfig, draft_ids: Tensor) -> None:
        """draft_ids: [D] int64, ascending target ids that can be drafted."""
        super().__init__()
        self.config = config
        self.fc = nn.Linear(3 * config.hidden_size, config.hidden_size, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.register_buffer("d2t", draft_ids - torch.arange(config.draft_vocab_size))
        self.register_buffer("t2d", torch.zeros(config.vocab_size, dtype=torch.bool).index_fill_(0, draft_ids, True))

    @property
    def draft_ids(self) -> Tensor:
        """[D] int64 target ids of the draft vocabulary."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def unroll(self, aux: Tensor, embedding: Tensor, batch: PackedBatch, num_steps: int) -> list[Tensor]:
        """Draft logits of `num_steps` steps from every anchor at once, each [B, Q, D]; step s (from 0) at anchor t
        reads token t+1+s and scores token t+2+s.

        aux:       [B, L, 3H] the target's tapped states
        embedding: [V, H] the target's token embedding

        Step 0 takes its feature from the target. A later step takes it from the head's own last output, and sees the
        step-0 keys up to its anchor and its own keys of steps 1 … s: what a drafting loop's cache would hold.
        """
        layer = self.midlayer
        feature = self.fc(aux).to(self.norm.weight.dtype)  # under autocast too the residual keeps full precision
        next_ids = torch.cat((batch.input_ids[:, 1:], batch.input_ids[:, -1:]), dim=1)
        keys, values = layer.self_attn.keys_values(layer.beside(F.embedding(next_ids, embedding), feature),
                                                   batch.position_ids)
        mask = take(batch.visible(), batch.anchors)
        start = batch.position_ids.gather(1, batch.anchors)
        own = torch.eye(batch.anchors.shape[1], dtype=torch.bool, device=mask.device).expand(len(mask), -1, -1)
        hidden = take(feature, batch.anchors)
        logits = []
        for step in range(num_steps):
            ids = batch.input_ids.gather(1, batch.ahead(1 + step)[0])
            x = layer.beside(F.embedding(ids, embedding), hidden)
            if step:
                own_keys, own_values = layer.self_attn.keys_values(x, start + step)
                keys, values = torch.cat((keys, own_keys), dim=2), torch.cat((values, own_values), dim=2)
                mask = torch.cat((mask, own), dim=2)
            queries = layer.self_attn.queries(x, start + step)
            hidden = layer.finish(hidden, layer.self_attn.attend(queries, keys, values, mask))
            logits.append(self.lm_head(self.norm(hidden)))
        return logits


def unroll_loss(head: Eagle3Head, logits: list[Tensor], target_logits: Tensor, batch: PackedBatch) -> Tensor:
    """Soft cross-entropy against the target's distribution over the draft vocabulary, steps weighed by 0.8^s; scalar.

    target_logits: [B, L, V]. Positions whose most likely target token lies outside the draft vocabulary teach
    nothing, as in the published training, and neither does the last token of a document.
    """
    draftable = head.t2d[target_logits.argmax(-1)]
    restricted = target_logits[..., head.draft_ids]
    total = torch.zeros((), device=target_logits.device)
    for step, scores in enumerate(logits):
        index, _ = batch.ahead(1 + step)
        learned = batch.ahead(2 + step)[1] & draftable.gather(1, index)
        wanted = take(restricted, index).float().softmax(-1)
        cross_entropy = -(wanted * scores.float().log_softmax(-1)).sum(-1)
        total = total + STEP_DECAY**step * (cross_entropy * learned).sum() / learned.sum().clamp(min=1)
    return total


def save_head(head: Eagle3Head, folder: Path) -> None:
    """Write config.json and model.safetensors: weights bfloat16, d2t int64, t2d bool."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: (x.to(torch.bfloat16) if x.is_floating_point() else x).cpu().contiguous()
               for name, x in head.state_dict().items()}
    (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(head.config.to_json(), indent=2) + "\n")


def load_head(folder: Path) -> Eagle3Head:
    """The head that `save_head` wrote, weights float32."""
    config = HeadConfig.from_json(json.loads((folder / "config.json").read_text()))
    tensors = load_file(folder / "model.safetensors")
    head = Eagle3Head(config, tensors["d2t"] + torch.arange(config.draft_vocab_size))
    head.load_state_dict({name: x.float() if x.is_floating_point() else x for name, x in tensors.items()})
    return head
