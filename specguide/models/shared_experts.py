"""Owns SharedExpertsConfig: layers with experts beside an MLP through which every token goes, and
plain layers before them (DeepSeekMoE, arXiv 2401.06066)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, positive_number, shown
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, SeparateExperts, SharedExperts
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.placement import Placement
from specguide.models import dense
from specguide.models.config import size
from specguide.models.expert_fields import experts_in_groups
from specguide.models.experts_config import ExpertsConfig

SHARED_EXPERTS_FIELDS = (
    *("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size"),
    *("first_k_dense_replace", "norm_topk_prob", "routed_scaling_factor", "n_group", "topk_group"),
)
_CHOICE_BIAS = "gate.e_score_correction_bias"


class ExpertDefaults(NamedTuple):
    """What a family's configuration says where config.json does not.

    num_experts, num_chosen, expert_size: experts, those of a token, and their inner features
    mlp_size:      inner features of the MLP in plain layers
    num_dense:     plain layers
    scale:         factor on the experts' weights
    is_normalised: see RoutingRule
    groups:        groups of experts, and those of which experts are chosen
    """

    num_experts: int
    num_chosen: int
    expert_size: int
    mlp_size: int
    num_dense: int
    scale: float = 1.0
    is_normalised: bool = True
    groups: tuple[int, int] = (1, 1)


@dataclass(frozen=True, kw_only=True)
class SharedExpertsConfig(ExpertsConfig):
    """The configuration of such a model.

    num_dense:   layers with an MLP of `mlp_size` inner features; those behind them have experts
    shared_size: inner features of the MLP beside the experts
    """

    num_dense: int
    mlp_size: int
    shared_size: int

    def of_one_more_layer(self) -> Self:
        """See ModelConfig."""
        return replace(super().of_one_more_layer(), num_dense=0)


def shared_experts_fields(
    fields: Mapping[str, Any], defaults: ExpertDefaults, *, is_sigmoid: bool = True
) -> dict[str, Any]:
    """What SharedExpertsConfig adds to a ModelConfig, from SHARED_EXPERTS_FIELDS. Raises
    CheckpointError.

    is_sigmoid: see RoutingRule; such a router also has a bias for the choice
    """
    expert_size = size(fields, "moe_intermediate_size", defaults.expert_size)
    experts = experts_in_groups(
        fields,
        defaults.groups,
        name="n_routed_experts",
        num_experts=defaults.num_experts,
        num_chosen=defaults.num_chosen,
        expert_size=expert_size,
        is_normalised=flag(fields, "norm_topk_prob", defaults.is_normalised),
        is_sigmoid=is_sigmoid,
        scale=positive_number(fields, "routed_scaling_factor", defaults.scale),
        choice_bias=_CHOICE_BIAS if is_sigmoid else None,
    )
    mlp_size = size(fields, "intermediate_size", defaults.mlp_size)
    shared_size = expert_size * positive_int(fields, "n_shared_experts", 1, at_most=2**10)
    return {
        "intermediate_size": max(mlp_size, experts.rule.num_chosen * expert_size + shared_size),
        "experts": experts,
        "num_dense": _num_dense(fields, defaults.num_dense),
        "mlp_size": mlp_size,
        "shared_size": shared_size,
    }


def build_layer(config: SharedExpertsConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index`: plain if it is one of the first, else with experts and a shared MLP."""
    hidden_size = config.hidden_size
    inner = place.within("mlp")
    if index < config.num_dense:
        mlp = GatedMlp.create(inner, hidden_size, config.mlp_size)
        return dense.layer_around(mlp, config, index, place)
    both = SharedExperts(
        Experts.create(inner, hidden_size, config.experts, SeparateExperts()),
        GatedMlp.create(inner.within("shared_experts"), hidden_size, config.shared_size),
    )
    return dense.layer_around(both, config, index, place)


def _num_dense(fields: Mapping[str, Any], default: int) -> int:
    stated = fields.get("first_k_dense_replace", default)
    if type(stated) is not int or stated < 0:
        raise CheckpointError(
            f"'first_k_dense_replace' must be an integer of at least 0, found {shown(stated)}"
        )
    return stated
