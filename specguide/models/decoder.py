"""Owns Decoder: the one decoder of the dense families (Llama, Mistral, Qwen2, Qwen2.5, Qwen3,
MiMo)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.cache import KVCache
from specguide.errors import CheckpointError, InvalidParams
from specguide.json_fields import check_folder
from specguide.kernels import linear
from specguide.kernels.attention import ForwardContext
from specguide.layers.attention import Attention, empty_attention
from specguide.layers.linear import empty_weight
from specguide.layers.mlp import GatedMlp
from specguide.layers.norm import RmsNorm
from specguide.layers.rope import rope_table
from specguide.models.config import ModelConfig
from specguide.models.weights import (
    Destination,
    attention_destinations,
    check_weights,
    load_weights,
    mlp_destinations,
    open_weights,
    weight_files,
)

MTP_PREFIX = "model.mtp_layers."
"""Tensors of a multi-token-prediction head, which a target's checkpoint may hold beside its own."""

_DRAFT_POSITIONS = 128
"""Drafts are proposed and verified past the end of the context too, though none of them counts."""

_LARGEST_TABLE = 4 * 2**30
"""Bytes of the rotary table: 8 million positions of a head of 128 in bfloat16."""


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """hidden + attention(norm(hidden)), then + MLP(norm(·)). Each sum is made with the norm that
    follows it."""

    input_norm: RmsNorm
    attention: Attention
    post_attention_norm: RmsNorm
    mlp: GatedMlp

    @classmethod
    def empty(
        cls, config: ModelConfig, index: int, *, device: torch.device, dtype: torch.dtype
    ) -> DecoderLayer:
        """Uninitialised weights of layer `index`."""
        hidden_size, norm_eps = config.hidden_size, config.norm_eps
        input_norm, post_attention_norm = (
            RmsNorm.empty(hidden_size, eps=norm_eps, device=device, dtype=dtype) for _ in range(2)
        )
        attention = empty_attention(
            hidden_size,
            hidden_size,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            qkv_bias=config.qkv_bias,
            out_bias=config.out_bias,
            qk_norm=config.qk_norm,
            norm_eps=norm_eps,
            sliding_window=config.sliding_windows[index],
            device=device,
            dtype=dtype,
        )
        mlp = GatedMlp.empty(
            hidden_size, config.intermediate_size, bias=config.mlp_bias, device=device, dtype=dtype
        )
        return cls(input_norm, attention, post_attention_norm, mlp)

    def __call__(
        self,
        hidden: Tensor,
        normed: Tensor,
        next_norm: RmsNorm,
        rotary: Tensor,
        context: ForwardContext,
        keys: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """hidden [T, hidden_size] and its `input_norm` → the layer's output, and its
        `next_norm`."""
        attended = self.attention(normed, rotary, context, keys, values)
        hidden, normed = self.post_attention_norm.add(hidden, attended)
        return next_norm.add(hidden, self.mlp(normed))

    def destinations(self, prefix: str) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its Hugging Face name behind `prefix`."""
        return {
            f"{prefix}input_layernorm.weight": Destination.of(self.input_norm.weight),
            f"{prefix}post_attention_layernorm.weight": Destination.of(
                self.post_attention_norm.weight
            ),
            **attention_destinations(f"{prefix}self_attn.", self.attention),
            **mlp_destinations(f"{prefix}mlp.", self.mlp),
        }


class Decoder:
    """A dense decoder-only transformer over a paged KV cache.

    config:       what it was built from
    embed_weight: [vocab_size, hidden_size], token embeddings, which a draft head may share
    device, dtype: where and what its weights and hidden states are
    max_positions: longest sequence it serves, tokens

    `forward` allocates only activations, reads nothing back to the host and takes no branch on
    data, so a CUDA graph can capture it.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        max_positions: int | None = None,
    ) -> None:
        """Uninitialised weights; `load` reads a checkpoint.

        max_positions: longest sequence, tokens; None: config.max_position_embeddings. Raises
                       InvalidParams when it is
        longer than that.
        """
        self.config, self.device, self.dtype = config, torch.device(device), dtype
        self.max_positions = max_positions = max_positions or config.max_position_embeddings
        if max_positions > config.max_position_embeddings:
            raise InvalidParams(
                f"max_model_len {max_positions} is more than the {config.max_position_embeddings} "
                "positions that the model has",
                param="max_model_len",
            )
        table_bytes = 2 * max_positions * config.head_dim * dtype.itemsize
        if table_bytes > _LARGEST_TABLE:
            raise InvalidParams(
                f"the table of {max_positions} positions needs {table_bytes} bytes; set "
                "max_model_len "
                f"to {max_positions * _LARGEST_TABLE // table_bytes} or less",
                param="max_model_len",
            )
        # A tied matrix is laid out for the product; looking rows up in it costs little either way.
        self.lm_head = empty_weight(
            config.vocab_size, config.hidden_size, device=self.device, dtype=dtype
        )
        self.embed_weight = (
            self.lm_head
            if config.tie_word_embeddings
            else self._empty(config.vocab_size, config.hidden_size)
        )
        self.layers = tuple(
            DecoderLayer.empty(config, layer, device=self.device, dtype=dtype)
            for layer in range(config.num_layers)
        )
        self.norm = RmsNorm.empty(
            config.hidden_size, eps=config.norm_eps, device=self.device, dtype=dtype
        )
        self.rope_table = rope_table(
            config.rope,
            config.head_dim,
            max_positions + _DRAFT_POSITIONS,
            device=self.device,
            dtype=dtype,
        )

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        *,
        max_positions: int | None = None,
    ) -> Decoder:
        """From a Hugging Face folder: config.json and safetensors, one file or shards with their
        index.

        Raises CheckpointError that names the file and what is wrong with it.
        """
        folder = Path(folder)
        check_folder(folder)
        config, files = ModelConfig.from_folder(folder), weight_files(folder)
        tied = config.tie_word_embeddings
        check_weights(
            files,
            cls.skeleton(config).destinations(),
            ignored=lambda name: (
                name.endswith("rotary_emb.inv_freq")
                or name.startswith(MTP_PREFIX)
                or (tied and name == "lm_head.weight")
            ),
        )
        decoder = cls(config, device=device, dtype=dtype, max_positions=max_positions)
        load_weights(files, decoder.destinations())
        if tied:
            decoder._check_tied_head(files)
        return decoder

    @classmethod
    def skeleton(cls, config: ModelConfig) -> Decoder:
        """Shapes without memory, on the meta device; files are compared with them before memory is
        taken."""
        return cls(config, device="meta", max_positions=1)

    def forward(
        self,
        input_ids: Tensor,
        context: ForwardContext,
        cache: KVCache,
        tapped_layers: tuple[int, ...] = (),
    ) -> tuple[Tensor, Tensor]:
        """One pass over T tokens; stores their keys and values in `cache` (layer i in
        cache.keys[i]).

        input_ids:     int64 [T]
        tapped_layers: layers whose input is wanted, 0 … num_layers, that is, the residual stream
                       before layer i, the output of layer i - 1 (num_layers: of the last, before
                       the final norm). This is what EAGLE-3 and its heads mean by a layer's hidden
                       state.
        Returns hidden [T, hidden_size] after the final norm, and the tapped inputs side by side
        [T, len(tapped_layers) · hidden_size].
        """
        hidden = F.embedding(input_ids, self.embed_weight)
        normed = self.layers[0].input_norm(hidden)
        rotary = self.rope_table.index_select(0, context.position_ids)
        next_norms = (*(layer.input_norm for layer in self.layers[1:]), self.norm)
        inputs = {0: hidden} if 0 in tapped_layers else {}
        for index, (layer, next_norm, keys, values) in enumerate(
            zip(self.layers, next_norms, cache.keys, cache.values, strict=True), start=1
        ):
            hidden, normed = layer(hidden, normed, next_norm, rotary, context, keys, values)
            if index in tapped_layers:
                inputs[index] = hidden
        if not tapped_layers:
            return normed, hidden[:, :0]
        return normed, torch.cat([inputs[layer] for layer in tapped_layers], dim=-1)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [n, hidden_size] as `forward` returns it → [n, vocab_size], in the model's
        dtype."""
        return linear(hidden, self.lm_head)

    def fit_vocabulary(self, size: int) -> None:
        """Serve beside a model of the same tokens whose vocabulary is padded to `size` ids.

        From now on it reads every id below `size`, those that it has not like its last one, and
        gives logits of none beyond `size`.
        """
        self.lm_head = self.lm_head[:size]
        num_missing = size - len(self.embed_weight)
        if num_missing > 0:
            self.embed_weight = torch.cat(
                (self.embed_weight, self.embed_weight[-1:].expand(num_missing, -1))
            )

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its Hugging Face name."""
        destinations = {
            "model.embed_tokens.weight": Destination.of(self.embed_weight),
            "model.norm.weight": Destination.of(self.norm.weight),
        }
        if not self.config.tie_word_embeddings:
            destinations["lm_head.weight"] = Destination.of(self.lm_head)
        for index, layer in enumerate(self.layers):
            destinations |= layer.destinations(f"model.layers.{index}.")
        return destinations

    def rope_table_for(self, layer: ModelConfig) -> Tensor:
        """The rotary table of a draft head's layer, as long as this model's: heads are published
        with a shorter max_position_embeddings than they serve. Raises CheckpointError where its
        kind has no such length."""
        if (layer.rope, layer.head_dim) == (self.config.rope, self.config.head_dim):
            return self.rope_table
        if layer.rope.rope_type == "dynamic" and self.max_positions > layer.max_position_embeddings:
            raise CheckpointError(
                "rope type 'dynamic' is supported up to the head's "
                f"{layer.max_position_embeddings} "
                f"positions, the target has {self.max_positions}"
            )
        return rope_table(
            layer.rope,
            layer.head_dim,
            self.rope_table.shape[0],
            device=self.device,
            dtype=self.dtype,
        )

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, device=self.device, dtype=self.dtype)

    def _check_tied_head(self, files: tuple[Path, ...]) -> None:
        """A tied checkpoint may hold the matrix twice, but not two matrices."""
        for path in files:
            with open_weights(path) as stored:
                head = stored.get("lm_head.weight")
                if head is not None and not torch.equal(
                    head.read().to(self.embed_weight), self.embed_weight
                ):
                    raise CheckpointError(
                        f"{path}: config.json ties the embeddings, but lm_head.weight is not equal "
                        "to model.embed_tokens.weight"
                    )
