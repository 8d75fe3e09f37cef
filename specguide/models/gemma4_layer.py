"""Owns the layers of Gemma 4."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specguide.kernels import gelu_tanh_mul
from specguide.layers.attention import Attention, AttentionShape, AttentionState
from specguide.layers.decoder_layer import LayerState
from specguide.layers.destination import Destination, merged
from specguide.layers.experts import Experts, ExpertsShape, SeparateExperts
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.shared_keys import SharedKeysAttention
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
class ExpertsBeside:
    """Experts beside the MLP of a layer. They read another norm of the stream than the MLP, and
    their router reads a third one.

    mlp_norm, output_norm: norms of what the MLP and the experts give, which are then added
    """

    mlp_norm: RmsNorm
    input_norm: RmsNorm
    router_norm: RmsNorm
    experts: Experts
    output_norm: RmsNorm

    @classmethod
    def create(cls, place: Placement, config: ModelConfig, shape: ExpertsShape) -> ExpertsBeside:
        """Experts with uninitialised weights."""
        hidden_size, kind = config.hidden_size, config.norm
        of_router = replace(kind, weight_factor=hidden_size**-0.5)
        layout = SeparateExperts("router.proj")
        return cls(
            RmsNorm.create(place, "post_feedforward_layernorm_1", hidden_size, kind),
            RmsNorm.create(place, "pre_feedforward_layernorm_2", hidden_size, kind),
            RmsNorm.create(place, "router", hidden_size, of_router, tensor="scale"),
            Experts.create(place, hidden_size, shape, layout),
            RmsNorm.create(place, "post_feedforward_layernorm_2", hidden_size, kind),
        )

    def __call__(self, hidden: Tensor, of_mlp: Tensor) -> Tensor:
        """hidden: the stream that the layer's MLP reads; of_mlp: what it gives; all [T, hidden]"""
        both = self.experts.both_forms(self.input_norm(hidden))
        routed = self.router_norm(hidden)
        assert isinstance(routed, Tensor)  # the norm has no other format
        chosen = self.experts(both._replace(plain=routed)).total(hidden.dtype)
        return self.mlp_norm(of_mlp) + self.output_norm(chosen)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        norms = self.mlp_norm, self.input_norm, self.router_norm, self.output_norm
        return merged(*norms, self.experts)


@dataclass(frozen=True, eq=False)
class InputMix:
    """norm(output(gelu(gate(hidden)) · input)), where the input is the layer's own."""

    gate: Projection
    output: Projection
    norm: RmsNorm

    @classmethod
    def create(cls, place: Placement, config: ModelConfig, dim: int) -> InputMix:
        """A mix with uninitialised weights, which each rank has. dim: features of the input"""
        hidden_size = config.hidden_size
        return cls(
            Projection.create(place, hidden_size, {"per_layer_input_gate": dim}),
            Projection.create(place, dim, {"per_layer_projection": hidden_size}),
            RmsNorm.create(place, "post_per_layer_input_norm", hidden_size, config.norm),
        )

    def __call__(self, hidden: Tensor, given: Tensor) -> Tensor:
        """hidden [T, hidden]; given: the layer's input [T, dim]"""
        both = torch.cat([self.gate.forward(hidden), given], 1)
        mixed = self.norm(self.output.forward(gelu_tanh_mul(both)))
        assert isinstance(mixed, Tensor)  # the norm has no other format
        return mixed

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.gate, self.output, self.norm)


@dataclass(frozen=True)
class LayerOptions:
    """What differs from layer to layer, or from model to model.

    is_shared: it reads the keys and values of an earlier layer
    mlp_size:  inner features of its MLP
    experts:   those beside the MLP; None: there are none
    """

    is_shared: bool
    mlp_size: int
    experts: ExpertsShape | None


@dataclass(frozen=True, eq=False)
class Gemma4Layer:
    """hidden + norm(attention(norm(hidden))), then + norm(mlp(norm(·))), then + mix(·); all of it
    times a number of the checkpoint.

    experts: None: the layer has only the MLP
    mix:     None: the layer has no input beside the stream
    """

    input_norm: RmsNorm
    attention: Attention | SharedKeysAttention
    post_attention_norm: RmsNorm
    pre_mlp_norm: RmsNorm
    mlp: GatedMlp
    post_mlp_norm: RmsNorm
    scalar: LayerScalar
    experts: ExpertsBeside | None = None
    mix: InputMix | None = None

    @classmethod
    def create(
        cls,
        place: Placement,
        config: ModelConfig,
        shape: AttentionShape,
        options: LayerOptions,
    ) -> Gemma4Layer:
        """A layer with uninitialised weights."""
        hidden_size, experts, given = config.hidden_size, options.experts, config.layer_inputs
        attention = _attention(place.within("self_attn"), hidden_size, shape, options.is_shared)
        mlp = GatedMlp.create(
            place.within("mlp"), hidden_size, options.mlp_size, activation="gelu_tanh"
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
            experts=None if experts is None else ExpertsBeside.create(place, config, experts),
            mix=None if given is None else InputMix.create(place, config, given.dim),
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
        inner = self.mlp(normed).total(hidden.dtype)
        if self.experts is not None:
            inner = self.experts(hidden, inner)
        inner = self.post_mlp_norm(inner)
        if self.mix is not None:
            assert state.layer_input is not None
            hidden = hidden + inner
            inner = self.mix(hidden, state.wanted(state.layer_input))
        number = self.scalar.number
        return next_norm.add(hidden * number, PartialSums.of(inner * number))

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        norms = self.input_norm, self.post_attention_norm, self.pre_mlp_norm, self.post_mlp_norm
        parts = self.attention, self.mlp, self.scalar, self.experts, self.mix
        return merged(*norms, *parts)


def _attention(
    place: Placement, hidden_size: int, shape: AttentionShape, is_shared: bool
) -> Attention | SharedKeysAttention:
    if is_shared:
        return SharedKeysAttention.create(place, hidden_size, shape)
    return Attention.create(place, hidden_size, hidden_size, shape)
