"""Owns the reading of a mixture of experts from config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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


def experts_in_groups(
    fields: Mapping[str, Any], defaults: tuple[int, int], **own: Any
) -> ExpertsShape:
    """The shape as `experts_shape` reads it, with the groups that `n_group` and `topk_group` state.
    Raises CheckpointError.

    defaults: both if config.json states none
    own:      for `experts_shape`
    """
    experts = experts_shape(fields, **own)
    num_experts, rule = experts.num_experts, experts.rule
    num_groups = positive_int(fields, "n_group", defaults[0])
    num_kept = positive_int(fields, "topk_group", min(defaults[1], num_groups))
    if num_kept == num_groups:
        return experts
    group_size = num_experts // num_groups
    is_too_small = group_size < rule.num_of_group
    if num_experts % num_groups or is_too_small or num_kept > num_groups:
        raise CheckpointError(
            f"'n_group' {num_groups} and 'topk_group' {num_kept} do not fit {num_experts} experts"
        )
    if num_kept * group_size < rule.num_chosen:
        raise CheckpointError(
            f"'topk_group' {num_kept} leaves {num_kept * group_size} experts to choose "
            f"{rule.num_chosen} from"
        )
    rule = replace(rule, num_groups=num_groups, num_kept_groups=num_kept)
    return replace(experts, rule=rule)
