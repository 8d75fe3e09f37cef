"""Owns the reading of a mixture of experts from config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import positive_int
from specguide.kernels.experts import RoutingRule
from specguide.layers.experts import ExpertsShape

EXPERT_FIELDS = ("num_experts", "num_local_experts", "num_experts_per_tok")

_MOST_EXPERTS = 2**11


def experts_shape(
    fields: Mapping[str, Any],
    *,
    num_experts: int,
    num_chosen: int,
    expert_size: int,
    name: str = "num_experts",
    is_normalised: bool = True,
    is_sigmoid: bool = False,
    scale: float = 1.0,
    **own: Any,
) -> ExpertsShape:
    """The shape from EXPERT_FIELDS, and from what the family has read itself. Raises
    CheckpointError.

    num_experts, num_chosen: defaults if config.json states none
    name:                    the family's name of the number of experts
    is_normalised, is_sigmoid, scale: see RoutingRule
    """
    default = positive_int(fields, "num_local_experts", num_experts, at_most=_MOST_EXPERTS)
    num_experts = positive_int(fields, name, default, at_most=_MOST_EXPERTS)
    num_chosen = positive_int(fields, "num_experts_per_tok", num_chosen)
    if num_chosen > num_experts:
        raise CheckpointError(
            f"'num_experts_per_tok' must be at most {num_experts}, the number of experts; found "
            f"{num_chosen}"
        )
    return ExpertsShape(
        num_experts=num_experts,
        expert_size=expert_size,
        rule=RoutingRule(num_chosen, is_normalised, is_sigmoid, scale),
        **own,
    )
