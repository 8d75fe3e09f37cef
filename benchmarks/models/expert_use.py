"""Owns the share of experts that the tokens of a pass use, which determines the weights that it
must read."""

from __future__ import annotations

from statistics import mean
from typing import Any

from torch import Tensor

from benchmarks.models.logits import logits_of
from specguide import kernels
from specguide.kernels import experts as twins
from specguide.kernels.experts import Routing, RoutingRule
from specguide.models import Decoder


def expert_share(target: Decoder, token_ids: list[int], num_tokens: int) -> float:
    """The share of a layer's experts that the last tokens of a text use, averaged over the layers;
    1 for a model without experts."""
    if getattr(target.config, "experts", None) is None:
        return 1.0
    shares: list[float] = []
    implementations = kernels.route.implementations
    device = target.embedding.weight.device  # of the logits; target.device may lack its number
    route = implementations[device]

    def counted(
        logits: Tensor, rule: RoutingRule, bias: Tensor | None = None, *others: Any
    ) -> Routing:
        chosen = twins.route(logits[-num_tokens:], rule, bias).experts
        assert chosen is not None
        shares.append(len(chosen.unique()) / logits.shape[1])
        return route(logits, rule, bias, *others)

    implementations[device] = counted
    try:
        logits_of(target, token_ids)
    finally:
        implementations[device] = route
    return mean(shares)
