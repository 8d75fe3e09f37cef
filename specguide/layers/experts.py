"""Owns the feed-forward layers of a mixture of experts: Experts, and SharedExperts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from specguide.errors import InvalidParams
from specguide.kernels.experts import GateLimits, RoutingRule
from specguide.layers.destination import Destination, merged
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import (
    BothForms,
    ExpertWeights,
    InputFormat,
    ProjectionInput,
    create_experts,
)
from specguide.layers.quantization.float8_experts import Float8Beside
from specguide.layers.quantization.float8_input import Float8Input
from specguide.layers.router import Router
from specguide.layers.sharding import shards
from specguide.parallel import ONE_RANK, Ranks


@dataclass(frozen=True)
class ExpertsShape:
    """The sizes and options of a mixture of experts.

    expert_size: inner features of an expert
    rule:        how a token's experts are chosen
    choice_bias: name of the tensor that is added to the scores for the choice alone; None: there is
                 none
    factors:     name of the tensor of factors on the experts' weights; None: there is none
    has_bias:    router and experts have biases
    limits:      limits within the activation; None: silu(gate) · up
    """

    num_experts: int
    expert_size: int
    rule: RoutingRule
    choice_bias: str | None = None
    factors: str | None = None
    has_bias: bool = False
    limits: GateLimits | None = None


class ExpertsLayout(Protocol):
    """How a checkpoint stores the layer.

    router:        name of the router
    gate_up, down: names of the maps that make up an expert's two matrices
    """

    @property
    def router(self) -> str: ...

    @property
    def gate_up(self) -> tuple[str, ...]: ...

    @property
    def down(self) -> tuple[str, ...]: ...

    def destinations(
        self,
        prefix: str,
        gate_up: ExpertWeights,
        down: ExpertWeights,
        shape: ExpertsShape,
        held: range,
    ) -> dict[str, Destination]:
        """Where the tensors of the experts `held` go, by their full names, which begin with
        `prefix`."""


@dataclass(frozen=True)
class SeparateExperts:
    """A layout in which each map of each expert has its own tensors, under `experts.N`."""

    router: str = "gate"
    gate_up: tuple[str, str] = ("gate_proj", "up_proj")
    down: tuple[str] = ("down_proj",)

    def destinations(
        self,
        prefix: str,
        gate_up: ExpertWeights,
        down: ExpertWeights,
        shape: ExpertsShape,
        held: range,
    ) -> dict[str, Destination]:
        """See ExpertsLayout."""
        size = shape.expert_size
        gate_name, up_name = self.gate_up
        return {
            f"{prefix}experts.{expert}.{name}.{tensor}": destination
            for place, expert in enumerate(held)
            for name, parts in (
                (gate_name, gate_up.part(place, 0, size)),
                (up_name, gate_up.part(place, size, 2 * size)),
                (self.down[0], down.experts[place].destinations()),
            )
            for tensor, destination in parts.items()
        }


@dataclass(frozen=True, eq=False)
class Experts:
    """The gated MLPs that a router chooses for each token, weighted by the router's probabilities
    (Shazeer et al. 2017; Switch Transformer, arXiv 2101.03961).

    Only the weights of experts in use are read. The choice stays on the device and no shape depends
    on it, so that a CUDA graph can capture the layer.

    gate_up: each expert's hidden → 2 · expert_size, gate first
    down:    each expert's expert_size → hidden
    stored:  where the experts' tensors of a checkpoint go, by their full names
    ranks:   each rank has a part of the inner features of every expert, or some whole experts.
             Every rank has every token, so each computes the products of its part and these are
             summed: no token is sent to the rank of its expert
    held:    the experts that this rank has; None: all
    """

    shape: ExpertsShape
    router: Router
    gate_up: ExpertWeights
    down: ExpertWeights
    stored: Mapping[str, Destination]
    ranks: Ranks = ONE_RANK
    held: range | None = None

    @classmethod
    def create(
        cls,
        place: Placement,
        hidden_size: int,
        shape: ExpertsShape,
        layout: ExpertsLayout,
        held: range | None = None,
    ) -> Experts:
        """Experts with uninitialised weights. Raises InvalidParams if ranks cannot divide them.
        held: on one rank, the experts to have; None: all"""
        if place.ranks.size > 1:
            return cls._cut(place, hidden_size, shape, layout)
        here = held or range(shape.num_experts)
        size = shape.expert_size
        gate_up = _weights(place, shape, layout.gate_up, (2 * size, hidden_size), here)
        down = _weights(place, shape, layout.down, (hidden_size, size), here)
        router = Router.create(
            place,
            hidden_size,
            {layout.router: shape.num_experts},
            shape.rule,
            bias=shape.has_bias,
            choice_bias=shape.choice_bias,
            factors=shape.factors,
        )
        stored = layout.destinations(place.prefix, gate_up, down, shape, here)
        return cls(shape, router, gate_up, down, stored, held=held)

    @classmethod
    def _cut(
        cls, place: Placement, hidden_size: int, shape: ExpertsShape, layout: ExpertsLayout
    ) -> Experts:
        ranks = place.ranks
        part = shape
        held = None
        if ranks.has_whole_experts:
            num_held = ranks.share(shape.num_experts, "experts")
            held = range(ranks.rank * num_held, (ranks.rank + 1) * num_held)
        elif shape.has_bias:
            raise InvalidParams(
                "experts with biases cannot be cut among ranks: set enable_expert_parallel, which "
                "gives each rank whole experts, or leave tensor_parallel_size out",
                param="tensor_parallel_size",
            )
        else:
            size = ranks.share(shape.expert_size, "features of an expert")
            part = replace(shape, expert_size=size)
        whole = cls.create(place.whole(), hidden_size, shape, layout)
        mine = cls.create(replace(place, ranks=ONE_RANK), hidden_size, part, layout, held)
        return replace(mine, stored=shards(whole.stored, mine.stored, ranks), ranks=ranks)

    @property
    def input_format(self) -> Float8Beside | None:
        """The format of the input; None: a tensor."""
        wanted = self.gate_up.input_format
        return Float8Beside(wanted) if isinstance(wanted, Float8Input) else None

    def both_forms(self, x: ProjectionInput) -> BothForms:
        """The input as the router and as the experts want it: x is a tensor [T, hidden], or has the
        `input_format`, or both forms already."""
        if isinstance(x, BothForms):
            return x
        wanted = self.input_format
        return BothForms(x, x, None) if wanted is None else wanted.of(x)

    def __call__(self, x: ProjectionInput) -> PartialSums:
        """The weighted sum of the experts' outputs: x [T, hidden] → [T, hidden]."""
        both = self.both_forms(x)
        routing = self.router(both.plain, self.held)
        inner = self.gate_up.gated(both.wanted, routing, self.shape.limits, self.down.input_format)
        return PartialSums(self.down.weighted(inner, routing), ranks=self.ranks)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return {**self.router.destinations(), **self.stored}


@dataclass(frozen=True, eq=False)
class SharedExperts:
    """Experts, and an MLP through which every token goes beside them (DeepSeekMoE, arXiv
    2401.06066). gate: hidden → 1, whose sigmoid the MLP's output is multiplied by; None: no gate"""

    experts: Experts
    shared: GatedMlp
    gate: Projection | None = None

    @property
    def input_format(self) -> InputFormat | None:
        """The format of the input; None: a tensor."""
        return self.experts.input_format

    def __call__(self, x: ProjectionInput) -> PartialSums:
        """x [T, hidden] → [T, hidden]."""
        both = self.experts.both_forms(x)
        chosen, shared = self.experts(both), self.shared(both.of(self.shared.input_format)).parts
        if self.gate is not None:
            shared = shared * self.gate.forward(both.plain).float().sigmoid()
        parts = torch.cat([chosen.parts, shared.to(chosen.parts.dtype)])
        return PartialSums(parts, ranks=chosen.ranks)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.experts, self.shared, self.gate)


def _weights(
    place: Placement,
    shape: ExpertsShape,
    names: tuple[str, ...],
    size: tuple[int, int],
    held: range,
) -> ExpertWeights:
    """A matrix of `size` for each expert of `held`, made of its maps `names`."""
    specs = [
        place.matrix(*size, [f"experts.{expert}.{name}" for name in names], bias=shape.has_bias)
        for expert in held
    ]
    return create_experts(place.quantization, specs)
