"""Owns the parts of an EAGLE-3 head that no decoder has: the fusion of the target's hidden states,
and the first layer, which reads them together with a token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.layers.attention import Attention, AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.feed_forward import FeedForward, GatedMlp
from specguide.layers.lm_head import Embedding
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import ProjectionInput
from specguide.models.config import ModelConfig
from specguide.models.eagle3_config import Eagle3Config


@dataclass(frozen=True, eq=False)
class Fusion:
    """The map from the target's aux hidden states, side by side, to one feature.

    fc:         num_layers · target hidden → hidden
    joint_norm: norm over all states together before the map, `norm_before_fc`; None: no such norm
    each_norm:  norm over each state, weight [num_layers, target hidden], `fc_norm`; None: no such
                norm
    """

    fc: Projection
    joint_norm: RmsNorm | None
    each_norm: RmsNorm | None

    @classmethod
    def create(
        cls, place: Placement, config: Eagle3Config, num_layers: int, *, bias: bool
    ) -> Fusion:
        """A fusion of `num_layers` aux hidden states with uninitialised weights."""
        size = config.target_hidden_size
        kind = config.layer.norm
        joint_norm = each_norm = None
        if config.norms.joint:
            joint_norm = RmsNorm.create(place, "input_norm", num_layers * size, kind)
        if config.norms.each:
            heads = {f"fc_norm.{index}": 1 for index in range(num_layers)}
            each_norm = RmsNorm.of_heads(place, heads, size, kind)
        outputs = {"fc": config.layer.hidden_size}
        fc = Projection.create(place, num_layers * size, outputs, bias=bias)
        return cls(fc, joint_norm, each_norm)

    def __call__(self, aux_hidden_states: Tensor) -> Tensor:
        """aux_hidden_states [T, num_layers · target hidden] → features [T, hidden]."""
        fused: ProjectionInput = aux_hidden_states
        if self.joint_norm is not None:
            fused = self.joint_norm(aux_hidden_states)
        if self.each_norm is not None:
            num_layers, size = self.each_norm.weight.shape
            normed = self.each_norm(aux_hidden_states.view(-1, num_layers, size))
            assert isinstance(normed, Tensor)
            fused = normed.flatten(1)
        return self.fc.forward(fused)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its published name."""
        return merged(self.fc, self.joint_norm, self.each_norm)


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """A decoder layer whose attention reads a normed token embedding beside a normed feature.

    norm_before_residual: the residual is the normed feature, not the feature
    """

    input_norm: RmsNorm
    hidden_norm: RmsNorm
    attention: Attention
    post_attention_norm: RmsNorm
    feed_forward: FeedForward
    norm_before_residual: bool

    @classmethod
    def create(
        cls, place: Placement, layer: ModelConfig, *, norm_before_residual: bool
    ) -> FirstLayer:
        """A first layer with uninitialised weights."""
        size = layer.hidden_size
        mlp = GatedMlp.create(
            place.within("mlp"), size, layer.intermediate_size, bias=layer.mlp_bias
        )
        read = mlp.input_format
        return cls(
            RmsNorm.create(place, "input_layernorm", size, layer.norm),
            RmsNorm.create(place, "hidden_norm", size, layer.norm),
            Attention.create(place.within("self_attn"), 2 * size, size, layer.attention(0)),
            RmsNorm.create(place, "post_attention_layernorm", size, layer.norm, read),
            mlp,
            norm_before_residual,
        )

    def __call__(
        self,
        tokens: tuple[Embedding, Tensor],
        features: Tensor,
        next_norm: RmsNorm | NoNorm,
        state: AttentionState,
    ) -> tuple[Tensor, ProjectionInput]:
        """The layer's output and its `next_norm`, for all tokens or for the state's `outputs`.

        tokens:   the embeddings, and the ids [T] to look up in them
        features: the features [T, hidden] that are read beside them
        """
        inputs = self._inputs(tokens, features)
        residual = inputs.chunk(2, dim=-1)[1] if self.norm_before_residual else features
        hidden, normed_hidden = self.post_attention_norm.add(
            state.wanted(residual), self.attention(inputs, state)
        )
        return next_norm.add(hidden, self.feed_forward(normed_hidden))

    def store(
        self, tokens: tuple[Embedding, Tensor], features: Tensor, state: AttentionState
    ) -> None:
        """Store the keys and values that a call would, and compute nothing else."""
        self.attention.store(self._inputs(tokens, features), state)

    def _inputs(self, tokens: tuple[Embedding, Tensor], features: Tensor) -> Tensor:
        """Normed embeddings beside normed features, [T, 2 · hidden]."""
        embedding, input_ids = tokens
        inputs = torch.empty(
            len(input_ids), 2 * features.shape[-1], dtype=features.dtype, device=features.device
        )
        embedded, normed = inputs.chunk(2, dim=-1)
        embedding.norm_into(embedded, self.input_norm, input_ids)
        self.hidden_norm.into(normed, features)
        return inputs

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its published name."""
        return merged(
            self.input_norm,
            self.hidden_norm,
            self.attention,
            self.post_attention_norm,
            self.feed_forward,
        )
