"""Owns Eagle3Head: the EAGLE-3 draft head (Li et al. 2025) in the format in which heads are
published."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.errors import CheckpointError, InvalidParams
from specguide.json_fields import check_folder, naming
from specguide.kernels.attention import PassContext
from specguide.layers.attention import Attention, AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.lm_head import Embedding, LmHead
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.draft_vocabulary import DraftVocabulary
from specguide.models.eagle3_config import Eagle3Config
from specguide.models.weights import (
    check_tied,
    check_weights,
    load_weights,
    stored_names,
    weight_files,
)


@dataclass(frozen=True)
class OptionalParts:
    """Which parts a head may leave out it has: its own embeddings and output matrix, the pruned
    vocabulary."""

    embed_tokens: bool
    lm_head: bool
    d2t: bool
    t2d: bool

    @classmethod
    def of(cls, names: Collection[str]) -> OptionalParts:
        """Of a checkpoint that holds tensors of these names."""
        return cls(
            embed_tokens="embed_tokens.weight" in names,
            lm_head="lm_head.weight" in names,
            d2t="d2t" in names,
            t2d="t2d" in names,
        )


class Eagle3Head:
    """One transformer layer that continues the target's features.

    A draft step at position p reads the embedding of token p + 1 beside the feature of position p,
    and gives the feature of position p + 1, from which token p + 2 is proposed. The first features
    are fused from the target's aux hidden states, the following ones are the head's own.

    config:        the layer's shape; num_layers is 1
    aux_layers: what the target's `forward` is to be asked for
    target_ids:    int32 [draft_vocab_size], the target id of each draft id
    """

    def __init__(self, config: Eagle3Config, target: Decoder, present: OptionalParts) -> None:
        """Uninitialised weights; `load` reads a checkpoint."""
        self.config: ModelConfig = config.layer
        self.device = target.device
        self.dtype = target.dtype
        self.aux_layers = config.aux_layers(target.config.num_layers)
        self._norm_before_residual = config.norm_before_residual
        layer, hidden_size = config.layer, config.layer.hidden_size
        place = Placement(self.device, self.dtype, layer.quantization)
        inner = place.within("midlayer")
        taps_size = len(self.aux_layers) * target.config.hidden_size
        self.fc = Projection.create(place, taps_size, {"fc": hidden_size})
        self.attention = Attention.create(
            inner.within("self_attn"), 2 * hidden_size, hidden_size, layer.attention(0)
        )
        self.mlp = GatedMlp.create(
            inner.within("mlp"), hidden_size, layer.intermediate_size, bias=layer.mlp_bias
        )
        self.input_norm, self.hidden_norm, self.post_attention_norm = (
            RmsNorm.create(inner, name, hidden_size, layer.norm)
            for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")
        )
        self.norm = RmsNorm.create(place, "norm", hidden_size, layer.norm)
        self.embedding = target.embedding
        if present.embed_tokens:
            self.embedding = Embedding.create(place, layer.vocab_size, hidden_size, is_tied=True)
        self.lm_head = target.lm_head
        if present.lm_head:
            self.lm_head = LmHead.create(place, config.draft_vocab_size, hidden_size)
        elif config.tie_word_embeddings:
            self.lm_head = LmHead.tied(self.embedding)
        self._own = [self.embedding] * present.embed_tokens + [self.lm_head] * present.lm_head
        # On the meta device itself, arange would import sympy, which takes most of a second.
        self.target_ids = torch.arange(config.draft_vocab_size, dtype=torch.int32).to(self.device)
        self.rope_table = target.rope_table_for(layer)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        target: Decoder,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Eagle3Head:
        """From a folder with config.json and model.safetensors (or shards, or pytorch_model.bin).

        The embeddings and, where the vocabulary is not pruned, the output matrix are the target's
        when the folder has none; where config.json ties the two, the output matrix is the
        embeddings. `device` and `dtype` are the target's. Raises CheckpointError that names what is
        wrong, or does not fit the target, and InvalidParams for another device or dtype than the
        target's.
        """
        folder = Path(folder)
        _check_place(target, torch.device(device or target.device), dtype or target.dtype)
        check_folder(folder)
        config = Eagle3Config.from_folder(folder)
        files = weight_files(folder, pickle=True)
        present = OptionalParts.of({_canonical(name) for name in stored_names(files)})
        vocabulary = DraftVocabulary.empty(config, has_d2t=present.d2t, has_t2d=present.t2d)
        with naming(folder):
            _check_fit(config, target.config, present)
            skeleton = cls(config, target.skeleton(target.config), present)
        check_weights(
            files,
            merged(skeleton, vocabulary),
            rename=_canonical,
            ignored=lambda name: name.endswith("rotary_emb.inv_freq"),
        )
        with naming(folder):
            head = cls(config, target, present)
        load_weights(files, merged(head, vocabulary), rename=_canonical)
        holds_both = present.embed_tokens and present.lm_head and not present.d2t
        if config.tie_word_embeddings and holds_both:
            check_tied(files, head.embedding, rename=_canonical)
        with naming(folder):
            head.target_ids = vocabulary.target_ids().to(target.device, torch.int32)
        return head

    def fuse(self, aux_hidden_states: Tensor) -> Tensor:
        """The target's aux hidden states side by side [T, num_aux_layers · target hidden] →
        features [T, hidden]."""
        return self.fc.forward(aux_hidden_states)

    def forward(
        self, input_ids: Tensor, features: Tensor, context: PassContext, cache: KVCache
    ) -> tuple[Tensor, Tensor]:
        """One pass over T positions; stores their keys and values in layer 0 of `cache`.

        input_ids: int32 or int64 [T], the token *after* each position
        features:  [T, hidden], of each position, from `fuse` or from this method
        context:   its position_ids are the features' positions
        Returns the next positions' features [T, hidden], and their norm, which `draft_logits` turns
        into proposals.
        """
        rotary = self.rope_table.index_select(0, context.position_ids)
        inputs = torch.empty(
            len(input_ids), 2 * features.shape[-1], dtype=features.dtype, device=features.device
        )
        embeddings, normed = inputs.chunk(2, dim=-1)
        self.embedding.norm_into(embeddings, self.input_norm, input_ids)
        self.hidden_norm.into(normed, features)
        residual = normed if self._norm_before_residual else features
        state = AttentionState(context, rotary, cache.keys[0], cache.values[0])
        attended = self.attention(inputs, state)
        hidden, normed = self.post_attention_norm.add(residual, attended)
        return self.norm.add(hidden, self.mlp(normed))

    def draft_logits(self, normed: Tensor) -> Tensor:
        """[n, hidden], normed, as `forward` returns it → [n, draft_vocab_size], in the head's
        dtype."""
        return self.lm_head.forward(normed)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its published name; the vocabulary's tables
        not included."""
        return merged(
            self.fc,
            self.input_norm,
            self.hidden_norm,
            self.attention,
            self.post_attention_norm,
            self.mlp,
            self.norm,
            *self._own,
        )


def _canonical(name: str) -> str:
    """The published name of a tensor: others write `model.` before it, or `layers.0.` for
    `midlayer.`."""
    name = name.removeprefix("model.")
    return "midlayer." + name.removeprefix("layers.0.") if name.startswith("layers.0.") else name


def _check_place(target: Decoder, device: torch.device, dtype: torch.dtype) -> None:
    if (device, dtype) != (target.device, target.dtype):
        raise InvalidParams(
            f"a draft head runs where its target does, on {target.device} in {target.dtype}; "
            f"asked for {device} and {dtype}",
            param="dtype",
        )


def _check_fit(config: Eagle3Config, target: ModelConfig, present: OptionalParts) -> None:
    """Raise CheckpointError where head and target cannot work together."""
    hidden_size, vocab_size = config.layer.hidden_size, config.layer.vocab_size
    if vocab_size != target.vocab_size:
        raise CheckpointError(
            f"the head is for a vocabulary of {vocab_size}, the target has {target.vocab_size}"
        )
    if config.target_hidden_size != target.hidden_size:
        raise CheckpointError(
            f"the head is for a target of hidden size {config.target_hidden_size}, the target has "
            f"{target.hidden_size}"
        )
    if not present.embed_tokens and hidden_size != target.hidden_size:
        raise CheckpointError(
            f"'embed_tokens.weight' is missing, and the target's embeddings are of size "
            f"{target.hidden_size} where the head needs {hidden_size}"
        )
    pruned = config.draft_vocab_size != vocab_size
    if not present.d2t and pruned:
        raise CheckpointError(
            f"'d2t' is missing: the head's vocabulary of {config.draft_vocab_size} is a part of "
            "the "
            f"target's {vocab_size}"
        )
    is_tied = config.tie_word_embeddings and present.embed_tokens
    if not present.lm_head and (
        pruned or present.d2t or (hidden_size != target.hidden_size and not is_tied)
    ):
        raise CheckpointError("missing weights: lm_head.weight")
