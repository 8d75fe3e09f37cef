"""Owns the feed-forward layers: GatedMlp, MixtureOfExperts, and FeedForward, what a decoder layer
asks of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specguide.layers.destination import Destination, merged
from specguide.layers.placement import Placement
from specguide.layers.projection import PartialSums, Projection
from specguide.layers.quantization import Activation, InputFormat, ProjectionInput


class FeedForward(Protocol):
    """What follows the attention in a layer."""

    @property
    def input_format(self) -> InputFormat | None:
        """How it wants its input; None: as a tensor."""

    def __call__(self, x: ProjectionInput) -> PartialSums:
        """[T, hidden] → [T, hidden]."""

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""


@dataclass(frozen=True, eq=False)
class GatedMlp:
    """down(activation(gate(x)) · up(x)) (GLU variants, Shazeer 2020); gate and up are one product.

    gate_up: hidden → 2 · intermediate, gate first
    down:    intermediate → hidden
    """

    gate_up: Projection
    down: Projection
    activation: Activation = "silu"

    @classmethod
    def create(
        cls,
        place: Placement,
        hidden_size: int,
        intermediate_size: int,
        *,
        bias: bool = False,
        activation: Activation = "silu",
    ) -> GatedMlp:
        """Uninitialised weights."""
        both = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
        return cls(
            Projection.create(place, hidden_size, both, bias=bias),
            Projection.create(place, intermediate_size, {"down_proj": hidden_size}, bias=bias),
            activation,
        )

    @property
    def input_format(self) -> InputFormat | None:
        """How it wants its input; None: as a tensor."""
        return self.gate_up.input_format

    def __call__(self, x: ProjectionInput) -> PartialSums:
        """[T, hidden] → [T, hidden]."""
        inner = self.gate_up.forward_gated(x, self.activation, self.down.input_format)
        return self.down.forward_parts(inner)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.gate_up, self.down)


@dataclass(frozen=True)
class ExpertsShape:
    """A mixture of experts.

    num_chosen:    experts of a token
    expert_size:   inner features of an expert
    is_normalised: the weights of the chosen experts sum to 1
    """

    num_experts: int
    num_chosen: int
    expert_size: int
    is_normalised: bool


@dataclass(frozen=True, eq=False)
class MixtureOfExperts:
    """The gated MLPs that a router chooses for each token, weighted by how likely it says they are
    (Shazeer et al. 2017; Switch Transformer, arXiv 2101.03961).

    All experts lie side by side in one gated MLP, whose inner features are multiplied by the
    router's weights: 0 for those of the experts that were not chosen. So no shape depends on data,
    and a CUDA graph can capture it; the price is that every expert is computed for every token.

    router:  hidden → num_experts
    gate_up: hidden → 2 · num_experts · expert_size, the gates of all experts first
    down:    num_experts · expert_size → hidden
    """

    shape: ExpertsShape
    router: Projection
    gate_up: Projection
    down: Projection

    @classmethod
    def create(cls, place: Placement, hidden_size: int, shape: ExpertsShape) -> MixtureOfExperts:
        """Uninitialised weights."""

        def each(name: str) -> dict[str, int]:
            experts = range(shape.num_experts)
            return {f"experts.{expert}.{name}": shape.expert_size for expert in experts}

        return cls(
            shape,
            Projection.create(place, hidden_size, {"gate": shape.num_experts}),
            Projection.create(place, hidden_size, each("gate_proj") | each("up_proj")),
            Projection.summing(place, each("down_proj"), hidden_size),
        )

    @property
    def input_format(self) -> InputFormat | None:
        """None: the router reads a tensor."""
        return None

    def __call__(self, x: Tensor) -> PartialSums:
        """[T, hidden] → [T, hidden]."""
        inner = self.gate_up.forward_gated(x)
        inner = inner.unflatten(1, (self.shape.num_experts, -1)) * self._routing(x)[:, :, None]
        return self.down.forward_parts(inner.flatten(1))

    def _routing(self, x: Tensor) -> Tensor:
        """The weight of each expert for each token, [T, num_experts] of x's dtype."""
        likely = self.router.forward(x).softmax(-1, dtype=torch.float32)
        weights, chosen = likely.topk(self.shape.num_chosen)
        if self.shape.is_normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return torch.zeros_like(likely).scatter_(1, chosen, weights).to(x.dtype)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.router, self.gate_up, self.down)
