"""Owns Router, which chooses the experts of each token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from specguide.kernels import route
from specguide.kernels.experts import Routing, RoutingRule
from specguide.layers.destination import Destination
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection


@dataclass(frozen=True, eq=False)
class Router:
    """The linear map that scores the experts, and the rule of the choice. Scores that are sigmoids
    are close to each other, so their logits are computed in float32.

    scoring:     hidden → num_experts
    choice_bias: float32 [num_experts], added to the scores for the choice alone; None: there is
                 none
    bias_name:   its full name in a checkpoint
    factors:     float32 [num_experts], factors on the experts' weights; None: there are none
    factors_name: its full name in a checkpoint
    """

    scoring: Projection
    rule: RoutingRule
    choice_bias: Tensor | None = None
    bias_name: str = ""
    factors: Tensor | None = None
    factors_name: str = ""

    @classmethod
    def create(
        cls,
        place: Placement,
        hidden_size: int,
        outputs: dict[str, int],
        rule: RoutingRule,
        *,
        bias: bool = False,
        choice_bias: str | None = None,
        factors: str | None = None,
    ) -> Router:
        """A router with uninitialised weights. outputs: the name of its map, and the number of
        experts. choice_bias, factors: the names of these tensors; None: there are none"""
        dtype = torch.float32 if rule.is_sigmoid else place.dtype
        scoring = Projection.create(replace(place, dtype=dtype), hidden_size, outputs, bias=bias)
        found = cls(scoring, rule)
        numbers = partial(place.empty, *outputs.values(), dtype=torch.float32)
        if choice_bias is not None:
            name = place.prefix + choice_bias
            found = replace(found, choice_bias=numbers(), bias_name=name)
        if factors is not None:
            found = replace(found, factors=numbers(), factors_name=place.prefix + factors)
        return found

    def logits(self, x: Tensor) -> Tensor:
        """x [T, hidden] → [T, num_experts]."""
        return self.scoring.forward(x.float() if self.rule.is_sigmoid else x)

    def __call__(self, x: Tensor, held: range | None = None) -> Routing:
        """The experts of each token: x [T, hidden]. held: see `route`"""
        return route(self.logits(x), self.rule, self.choice_bias, held, self.factors)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        found = self.scoring.destinations()
        if self.choice_bias is not None:
            found[self.bias_name] = Destination.of(self.choice_bias)
        if self.factors is not None:
            found[self.factors_name] = Destination.of(self.factors)
        return found
