"""Owns the gpt-oss family (OpenAI 2025, arXiv 2508.10925): experts in every layer, attention with
sinks, and a window in every other layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import positive_int, positive_number
from specguide.kernels.experts import MXFP4_GROUP, AnyExperts, ExpertMatrices, GateLimits
from specguide.layers.attention import AttentionShape
from specguide.layers.destination import Destination
from specguide.layers.experts import ExpertsShape
from specguide.layers.quantization import ExpertWeights
from specguide.models.config import attention_biases, size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.experts_config import ExpertsConfig, layer_of_experts
from specguide.models.family import Family
from specguide.models.windows import periodic_windows

_FIELDS = ("experts_per_token", "swiglu_alpha", "swiglu_limit", "initial_context_length")
_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 150_000.0,
    "factor": 32.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


@dataclass(frozen=True, kw_only=True)
class GptOssConfig(ExpertsConfig):
    """The configuration of a gpt-oss. All layers have experts, and attention with sinks."""

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        return replace(super().attention(layer), has_sinks=True)


def read(fields: Mapping[str, Any]) -> GptOssConfig:
    """Read config.json with the defaults of transformers' GptOssConfig."""
    expert_size = size(fields, "intermediate_size", 2880)
    experts = experts_shape(
        fields,
        num_experts=128,
        num_chosen=positive_int(fields, "experts_per_token", 4),
        expert_size=expert_size,
        has_bias=True,
        limits=GateLimits(
            alpha=positive_number(fields, "swiglu_alpha", 1.702),
            limit=positive_number(fields, "swiglu_limit", 7.0),
        ),
    )
    has_rope = fields.get("rope_scaling") or fields.get("rope_parameters")
    return GptOssConfig.from_fields(
        {"rope_theta": 150_000.0, **fields, **({} if has_rope else {"rope_parameters": _ROPE})},
        head_dim=64,
        max_position_embeddings=131_072,
        eps=1e-5,
        intermediate_size=experts.rule.num_chosen * expert_size,
        sliding_windows=periodic_windows(fields, 2, 128),
        experts=experts,
        **attention_biases(fields, default=True),
    )


@dataclass(frozen=True)
class StackedExperts:
    """A layout with one tensor for the same map of all experts: `NAME_blocks` and `NAME_scales` in
    mxfp4, else `NAME`, transposed; and `NAME_bias`. Rows of gates and ups alternate."""

    router: str = "router"
    gate_up: tuple[str] = ("gate_up_proj",)
    down: tuple[str] = ("down_proj",)

    def destinations(
        self,
        prefix: str,
        gate_up: ExpertWeights,
        down: ExpertWeights,
        shape: ExpertsShape,
        held: range,
    ) -> dict[str, Destination]:
        """See ExpertsLayout. Raises CheckpointError for another quantization."""
        return {
            **_stacked(f"{prefix}experts.gate_up_proj", gate_up.matrices, num_turns=2),
            **_stacked(f"{prefix}experts.down_proj", down.matrices, num_turns=1),
        }


def _stacked(name: str, matrices: AnyExperts | None, num_turns: int) -> dict[str, Destination]:
    """Where the tensors of maps go whose rows alternate in the checkpoint and follow one another in
    `matrices`."""

    if not isinstance(matrices, ExpertMatrices) or not (
        matrices.is_mxfp4 or matrices.scales is None
    ):
        raise CheckpointError(
            f"{name}: gpt-oss is supported in mxfp4 and in bfloat16 only; use a checkpoint in one "
            "of them, and leave quantization out"
        )

    def turned(tensor: Tensor) -> Tensor:
        return tensor.unflatten(1, (num_turns, -1)).transpose(1, 2)

    def rows(tensor: Tensor, *shape: int) -> Destination:
        view = turned(tensor)
        return Destination(view, shape, lambda stored: stored.reshape(view.shape))

    values, scales, bias = matrices.values, matrices.scales, matrices.bias
    num_experts, out_features = values.shape[:2]
    found = {} if bias is None else {f"{name}_bias": rows(bias, *bias.shape)}
    if scales is not None:
        found[f"{name}_blocks"] = rows(values, *scales.shape, MXFP4_GROUP // 2)
        found[f"{name}_scales"] = rows(scales, *scales.shape)
        return found
    found[name] = Destination(
        turned(values),
        (num_experts, matrices.in_features, out_features),
        lambda stored: stored.mT.unflatten(1, (-1, num_turns)),
    )
    return found


GPT_OSS = Family(
    ("GptOssForCausalLM",),
    read,
    partial(layer_of_experts, name="mlp", layout=StackedExperts()),
    fields=(*EXPERT_FIELDS, *_FIELDS),
)
