"""Owns Decoder: the one decoder of the dense families (Llama, Mistral, Qwen2, Qwen2.5, Qwen3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.batch import ForwardContext
from specguide.cache import KVCache
from specguide.errors import CheckpointError, InvalidParams
from specguide.kernels import linear
from specguide.layers.attention import Attention, empty_attention
from specguide.layers.linear import empty_weight
from specguide.layers.mlp import GatedMlp
from specguide.layers.norm import RmsNorm
from specguide.layers.rope import rope_table
from specguide.models.config import ModelConfig
from specguide.models.weights import (
    Destination,
    attention_destinations,
    load_weights,
    mlp_destinations,
    open_weights,
    weight_files,
)

_DRAFT_POSITIONS = 128
"""Drafts are proposed and verified past the end of the context too, though none of them counts."""


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """hidden + attention(norm(hidden)), then + MLP(norm(·)). Each sum is made with the norm that follows it."""

    input_norm: RmsNorm
    attention: Attention
    post_attention_norm: RmsNorm
    mlp: GatedMlp


class Decoder:
    """A dense decoder-only transformer over a paged KV cache.

    config:       what it was built from
    embed_weight: [vocab_size, hidden_size], token embeddings, which a draft head may share
    device, dtype: where and what its weights and hidden states are
    max_positions: longest sequence it serves, tokens

    `forward` allocates only activations, reads nothing back to the host and takes no branch on data, so a CUDA graph
    can capture it.
    """

    def __init__(self, config: ModelConfig, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32,
                 max_positions: int | None = None) -> None:
        """Uninitialised weights; `load` reads a checkpoint.

        max_positions: longest sequence, tokens; None: config.max_position_embeddings. Raises InvalidParams when it is
        longer than that.
        """
        self.config, self.device, self.dtype = config, torch.device(device), dtype
        self.max_positions = max_positions = max_positions or config.max_position_embeddings
        if max_positions > config.max_position_embeddings:
            raise InvalidParams(f"max_model_len {max_positions} is more than the {config.max_position_embeddings} "
                                "positions that the model has", param="max_model_len")
        # A tied matrix is laid out for the product; looking rows up in it costs little either way.
        self.lm_head = empty_weight(config.vocab_size, config.hidden_size, device=self.device, dtype=dtype)
        self.embed_weight = self.lm_head if config.tie_word_embeddings else self._empty(config.vocab_size,
                                                                                        config.hidden_size)
        self.layers = tuple(self._empty_layer(layer) for layer in range(config.num_layers))
        self.norm = self._empty_norm()
        self.rope_table = rope_table(config.rope, config.head_dim, max_positions + _DRAFT_POSITIONS,
                                     device=self.device, dtype=dtype)

    @classmethod
    def load(cls, folder: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, *,
             max_positions: int | None = None) -> Decoder:
        """From a Hugging Face folder: config.json and safetensors, one file or shards with their index.

        Raises CheckpointError that names the file and what is wrong with it.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: is not a folder")
        decoder = cls(ModelConfig.from_folder(folder), device=device, dtype=dtype, max_positions=max_positions)
        files = weight_files(folder)
        tied = decoder.config.tie_word_embeddings
        load_weights(files, decoder.destinations(), ignored=lambda name: name.endswith("rotary_emb.inv_freq")
                     or (tied and name == "lm_head.weight"))
        if tied:
            decoder._check_tied_head(files)
        return decoder

    def forward(self, input_ids: Tensor, context: ForwardContext, cache: KVCache,
                tapped_layers: tuple[int, ...] = ()) -> tuple[Tensor, Tensor | None]:
        """One pass over T tokens; stores their keys and values in `cache` (layer i in cache.keys[i]).

        input_ids:     int64 [T]
        tapped_layers: layers whose input is wanted, 0 … num_layers, that is, the residual stream before layer i, the
                       output of layer i - 1 (num_layers: of the last, before the final norm). This is what EAGLE-3
                       and its heads mean by a layer's hidden state.
        Returns hidden [T, hidden_size] after the final norm, and the tapped inputs side by side
        [T, len(tapped_layers) · hidden_size], or None where none is wanted.
        """
        hidden = F.embedding(input_ids, self.embed_weight)
        normed = self.layers[0].input_norm(hidden)
        rotary = self.rope_table.index_select(0, context.position_ids)
        next_norms = (*(layer.input_norm for layer in self.layers[1:]), self.norm)
        inputs = [hidden]
        for layer, next_norm, keys, values in zip(self.layers, next_norms, cache.keys, cache.values, strict=True):
            attended = layer.attention(normed, rotary, context, keys, values)
            hidden, normed = layer.post_attention_norm.add(hidden, attended)
            hidden, normed = next_norm.add(hidden, layer.mlp(normed))
            inputs.append(hidden)
        taps = torch.cat([inputs[layer] for layer in tapped_layers], dim=-1) if tapped_layers else None
        return normed, taps

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [n, hidden_size] as `forward` returns it → [n, vocab_size], in the model's dtype."""
        return linear(hidden, self.lm_head)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its Hugging Face name."""
        destinations = {"model.embed_tokens.weight": Destination.of(self.embed_weight),
                        "model.norm.weight": Destination.of(self.norm.weight)}
        if not self.config.tie_word_embeddings:
            destinations["lm_head.weight"] = Destination.of(self.lm_head)
        for index, layer in enumerate(self.layers):
            prefix = f"model.layers.{index}."
            destinations[f"{prefix}input_layernorm.weight"] = Destination.of(layer.input_norm.weight)
            destinations[f"{prefix}post_attention_layernorm.weight"] = Destination.of(layer.post_attention_norm.weight)
            destinations |= attention_destinations(f"{prefix}self_attn.", layer.attention)
            destinations |= mlp_destinations(f"{prefix}mlp.", layer.mlp)
        return destinations

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, device=self.device, dtype=self.dtype)

    def _empty_norm(self) -> RmsNorm:
        return RmsNorm.empty(self.config.hidden_size, eps=self.config.norm_eps, device=self.device, dtype=self.dtype)

    def _empty_layer(self, layer: int) -> DecoderLayer:
        config = self.config
        attention = empty_attention(
            config.hidden_size, config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim,
            qkv_bias=config.qkv_bias, out_bias=config.out_bias, qk_norm=config.qk_norm, norm_eps=config.norm_eps,
            sliding_window=config.sliding_windows[layer], device=self.device, dtype=self.dtype)
        mlp = GatedMlp.empty(config.hidden_size, config.intermediate_size, bias=config.mlp_bias, device=self.device,
                             dtype=self.dtype)
        return DecoderLayer(self._empty_norm(), attention, self._empty_norm(), mlp)

    def _check_tied_head(self, files: tuple[Path, ...]) -> None:
        """A tied checkpoint may hold the matrix twice, but not two matrices."""
        for path in files:
            with open_weights(path) as stored:
                head = stored.get("lm_head.weight")
                if head is not None and not torch.equal(head.read().to(self.embed_weight), self.embed_weight):
                    raise CheckpointError(f"{path}: config.json ties the embeddings, but lm_head.weight is not equal "
                                          "to model.embed_tokens.weight")

