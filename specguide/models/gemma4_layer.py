"""Owns the layers of Gemma 4."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from specguide.layers.attention import Attention, AttentionShape, AttentionState
from specguide.layers.decoder_layer import LayerState
from specguide.layers.destination import Destination, merged
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.models.config import ModelConfig


@dataclass(frozen=True, eq=False)
class LayerScalar:
    """A number of the checkpoint by which a layer's output is multiplied."""

    number: Tensor
    name: str

    def destinations(self) -> dict[str, Destination]:
        """Where the tensor of a checkpoint goes, by its full name."""
        return {self.name: Destination.of(self.number)}


@dataclass(frozen=True, eq=False)
class Gemma4Layer:
    """hidden + norm(attention(norm(hidden))), then + norm(mlp(norm(·))); all of it times a number
    of the checkpoint."""

    input_norm: RmsNorm
    attention: Attention
    post_attention_norm: RmsNorm
    pre_mlp_norm: RmsNorm
    mlp: GatedMlp
    post_mlp_norm: RmsNorm
    scalar: LayerScalar

    @classmethod
    def create(cls, place: Placement, config: ModelConfig, shape: AttentionShape) -> Gemma4Layer:
        """A layer with uninitialised weights."""
        hidden_size = config.hidden_size
        attention = Attention.create(place.within("self_attn"), hidden_size, hidden_size, shape)
        mlp = GatedMlp.create(
            place.within("mlp"), hidden_size, config.intermediate_size, activation="gelu_tanh"
        )

        def norm(name: str, output: InputFormat | None = None) -> RmsNorm:
            return RmsNorm.create(place, name, hidden_size, config.norm, output)

        return cls(
            input_norm=norm("input_layernorm", attention.input_format),
            attention=attention,
            post_attention_norm=norm("post_attention_layernorm"),
            pre_mlp_norm=norm("pre_feedforward_layernorm", mlp.input_format),
            mlp=mlp,
            post_mlp_norm=norm("post_feedforward_layernorm"),
            scalar=LayerScalar(place.empty(1), f"{place.prefix}layer_scalar"),
        )

    def __call__(
        self,
        hidden: Tensor,
        normed: ProjectionInput,
        next_norm: RmsNorm | NoNorm,
        state: LayerState,
    ) -> tuple[Tensor, ProjectionInput]:
        """See Layer."""
        assert isinstance(state, AttentionState)
        attended = self.attention(normed, state).total(hidden.dtype)
        attended = self.post_attention_norm(attended)
        hidden, normed = self.pre_mlp_norm.add(state.wanted(hidden), PartialSums.of(attended))
        inner = self.post_mlp_norm(self.mlp(normed).total(hidden.dtype))
        number = self.scalar.number
        return next_norm.add(hidden * number, PartialSums.of(inner * number))

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        norms = self.input_norm, self.post_attention_norm, self.pre_mlp_norm, self.post_mlp_norm
        return merged(*norms, self.attention, self.mlp, self.scalar)
