"""Owns Eagle3Head: the EAGLE-3 draft head (Li et al. 2025) in the format in which heads are
published."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.errors import CheckpointError
from specguide.inputs.json_fields import check_model_folder, naming, read_json
from specguide.kernels.attention import OutputRows, PassContext
from specguide.layers.attention import AttentionState
from specguide.layers.destination import Destination, HasDestinations, merged
from specguide.layers.lm_head import Embedding, LmHead
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.placement import Placement
from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.dense import build_layer
from specguide.models.draft_vocabulary import DraftVocabulary
from specguide.models.eagle3_config import Eagle3Config
from specguide.models.eagle3_layer import FirstLayer, Fusion
from specguide.models.eagle3_parts import Eagle3Parts, canonical
from specguide.models.registry import quantized
from specguide.models.weights import (
    check_tied,
    check_weights,
    load_weights,
    stored_names,
    weight_files,
)


class Eagle3Head:
    """Transformer layers, mostly a single one, that continue the target's features.

    A draft step at position p reads the embedding of token p + 1 together with the feature of
    position p, and computes the feature of position p + 1, from which token p + 2 is proposed. The
    first features are fused from the target's aux hidden states, and the following ones are the
    head's own outputs. In a P-EAGLE head the following ones are all the same `mask_feature`.

    config:        the layers' shape
    aux_layers:    the aux layers to ask for in the target's `forward`
    target_ids:    int32 [draft_vocab_size], the target id of each draft id
    ranks:         the ranks among which its layers are cut: the target's, or one if they cannot be
                   cut
    mask_token_id: in a P-EAGLE head, the id of a token that is not known yet; None for other heads
    mask_hidden:   in a P-EAGLE head, [num_aux_layers · target hidden], stands for the aux hidden
                   states of such a token
    """

    def __init__(self, config: Eagle3Config, target: Decoder, present: Eagle3Parts) -> None:
        """Uninitialised weights; `load` reads a checkpoint."""
        self.config: ModelConfig = config.layer
        self.device, self.dtype = target.device, target.dtype
        self.aux_layers = config.aux_layers(target.config.num_layers)
        layer = config.layer
        norms = config.norms
        place = Placement(self.device, self.dtype, layer.quantization)
        self.fusion = Fusion.create(place, config, len(self.aux_layers), bias=present.fc_bias)
        layers = partial(_layers, config)
        place = replace(place, ranks=target.ranks).cut_where_possible(layers)
        self.ranks = place.ranks
        self.first, *self.others = layers(place)
        size = layer.hidden_size
        self.norm = RmsNorm.create(place, "norm", size, layer.norm) if norms.last else NoNorm()
        self._continues_norm = norms.output
        self.mask_token_id = config.mask_token_id
        self.mask_hidden = place.empty(len(self.aux_layers) * config.target_hidden_size)
        # On the meta device arange would import sympy, which takes most of a second.
        self.target_ids = torch.arange(config.draft_vocab_size, dtype=torch.int32).to(self.device)
        self.rope_table = target.rope_tables.of_head(layer)
        self._own = self._share(config, target, present, place)

    def _share(
        self, config: Eagle3Config, target: Decoder, present: Eagle3Parts, place: Placement
    ) -> list[HasDestinations]:
        """Set embeddings and output matrix, the target's or its own; returns its own."""
        layer = config.layer
        self.embedding, self.lm_head = target.embedding, target.lm_head
        if present.embed_tokens:
            self.embedding = Embedding.create(
                place, layer.vocab_size, layer.hidden_size, is_tied=True
            )
        if present.lm_head:
            self.lm_head = LmHead.create(place, config.draft_vocab_size, layer.hidden_size)
        elif config.tie_word_embeddings:
            self.lm_head = LmHead.tied(self.embedding, self.ranks)
        return [self.embedding] * present.embed_tokens + [self.lm_head] * present.lm_head

    @classmethod
    def load(
        cls, folder: str | Path, target: Decoder, *, quantization: str | None = None
    ) -> Eagle3Head:
        """Load from a folder with config.json and model.safetensors (or shards, or
        pytorch_model.bin).

        If the folder has no embeddings, the target's are used; likewise the output matrix, unless
        the vocabulary is pruned. If config.json ties the two, the output matrix is the embeddings.
        Raises CheckpointError that names what is wrong or does not fit the target, and
        InvalidParams for an unknown quantization.

        quantization: one of ONLINE_HEADS: how the weights are quantized while they are read
        """
        folder = Path(folder)
        check_model_folder(folder)
        fields = read_json(folder / "config.json")
        files = weight_files(folder, pickle=True)
        with naming(folder):
            present = Eagle3Parts.of({canonical(name) for name in stored_names(files)})
        with naming(folder / "config.json"):
            config = held_in(Eagle3Config.from_hf(fields, present), quantization)
        vocabulary = DraftVocabulary.empty(config, has_d2t=present.d2t, has_t2d=present.t2d)
        with naming(folder):
            _check_fit(config, target.config, present)
            skeleton = cls(config, target.skeleton(target.config), present)
        expected = merged(skeleton, vocabulary)
        check_weights(files, expected, rename=canonical, ignored=_is_left_aside)
        with naming(folder):
            head = cls(config, target, present)
        load_weights(files, merged(head, vocabulary), rename=canonical)
        if config.tie_word_embeddings and present.holds_both_matrices:
            check_tied(files, head.embedding, rename=canonical)
        with naming(folder):
            head.target_ids = vocabulary.target_ids().to(target.device, torch.int32)
        return head

    def fuse(self, aux_hidden_states: Tensor) -> Tensor:
        """The target's aux hidden states side by side [T, num_aux_layers · target hidden] →
        features [T, hidden]."""
        return self.fusion(aux_hidden_states)

    @cached_property
    @torch.inference_mode()
    def mask_feature(self) -> Tensor:
        """The feature that stands for an unknown one, [1, hidden]: `fuse` of `mask_hidden`. Only a
        loaded P-EAGLE head has it."""
        return self.fuse(self.mask_hidden[None])

    def forward(
        self,
        input_ids: Tensor,
        features: Tensor,
        context: PassContext,
        cache: KVCache,
        outputs: OutputRows | None = None,
    ) -> tuple[Tensor, Tensor]:
        """One pass over T positions; stores their keys and values in `cache`, one layer of it for
        each layer.

        input_ids: int32 or int64 [T], the token *after* each position
        features:  the feature of each position [T, hidden], from `fuse` or from this method
        context:   its position_ids are the features' positions
        outputs:   the W tokens whose next features are returned; None: all
        Returns the next positions' features [W, hidden], and the normed features [W, hidden] from
        which `draft_logits` computes proposals.
        """
        *states, last = self._states(context, cache)
        states = [*states, last._replace(outputs=outputs)]
        next_norms = (*(layer.input_norm for layer in self.others), self.norm)
        hidden, normed = self.first((self.embedding, input_ids), features, next_norms[0], states[0])
        for layer, next_norm, state in zip(self.others, next_norms[1:], states[1:], strict=True):
            hidden, normed = layer(hidden, normed, next_norm, state)
        assert isinstance(normed, Tensor)  # the output matrix reads the last norm
        return (normed if self._continues_norm else hidden), normed

    def store(
        self, input_ids: Tensor, features: Tensor, context: PassContext, cache: KVCache
    ) -> None:
        """Store the keys and values that `forward` would, and compute nothing else."""
        tokens = (self.embedding, input_ids)
        states = self._states(context, cache)
        if not self.others:
            return self.first.store(tokens, features, states[0])
        hidden, normed = self.first(tokens, features, self.others[0].input_norm, states[0])
        for layer, following, state in zip(
            self.others[:-1], self.others[1:], states[1:-1], strict=True
        ):
            hidden, normed = layer(hidden, normed, following.input_norm, state)
        self.others[-1].attention.store(normed, states[-1])

    def _states(self, context: PassContext, cache: KVCache) -> list[AttentionState]:
        """The attention's state of each layer."""
        rotary = self.rope_table.index_select(0, context.position_ids)
        return [
            AttentionState(context, rotary, keys, values)
            for keys, values in zip(cache.keys, cache.values, strict=True)
        ]

    def draft_logits(self, normed: Tensor) -> Tensor:
        """The logits of draft ids: normed [n, hidden], as `forward` returns it → [n,
        draft_vocab_size], in the head's dtype."""
        return self.lm_head.forward(normed)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its published name, except the vocabulary's
        tables."""
        own = merged(self.fusion, self.first, *self.others, self.norm, *self._own)
        if self.mask_token_id is None:
            return own
        shape = self.mask_hidden.shape
        mask = Destination(
            self.mask_hidden, (1, 1, *shape), torch.flatten, other_shapes=((1, *shape), (*shape,))
        )
        return {**own, "mask_hidden": mask}


def _layers(config: Eagle3Config, place: Placement) -> tuple[Any, ...]:
    """The first layer and the following ones, with uninitialised weights."""
    layer = config.layer
    before = config.norms.before_residual
    first = FirstLayer.create(place.within("midlayer"), layer, norm_before_residual=before)
    return first, *(
        build_layer(layer, index, place.within(f"layers.{index}"))
        for index in range(1, layer.num_layers)
    )


def held_in(config: Eagle3Config, quantization: str | None) -> Eagle3Config:
    """The configuration of a head whose weights are quantized while they are read; see
    `Eagle3Head.load`."""
    return replace(config, layer=quantized(config.layer, quantization, is_head=True))


def _is_left_aside(name: str) -> bool:
    """Whether a tensor may be in a checkpoint, although the head does not use it."""
    return name.endswith("rotary_emb.inv_freq")


def _check_fit(config: Eagle3Config, target: ModelConfig, present: Eagle3Parts) -> None:
    """Raise CheckpointError if head and target cannot work together."""
    hidden_size, vocab_size = config.layer.hidden_size, config.layer.vocab_size
    if vocab_size != target.vocab_size:
        raise CheckpointError(
            f"the draft head was made for another target: its vocabulary has {vocab_size} tokens, "
            f"the target's {target.vocab_size}"
        )
    if config.target_hidden_size != target.hidden_size:
        raise CheckpointError(
            "the draft head was made for another target: it expects hidden size "
            f"{config.target_hidden_size}, and the target has {target.hidden_size}"
        )
    if not present.embed_tokens and hidden_size != target.hidden_size:
        raise CheckpointError(
            "'embed_tokens.weight' is missing, and the target's embeddings do not fit: they have "
            f"size {target.hidden_size}, and the head needs {hidden_size}"
        )
    pruned = config.draft_vocab_size != vocab_size
    if not present.d2t and pruned:
        raise CheckpointError(
            f"'d2t' is missing: a head with {config.draft_vocab_size} of the target's "
            f"{vocab_size} tokens needs it to map its token ids to the target's"
        )
    is_tied = config.tie_word_embeddings and present.embed_tokens
    if not present.lm_head and (
        pruned or present.d2t or (hidden_size != target.hidden_size and not is_tied)
    ):
        raise CheckpointError("missing weights: lm_head.weight")
