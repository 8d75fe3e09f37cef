"""Random checkpoints in each format of 4-bit weights, packed as the formats are published, and the
models that they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tiny
import torch
from checkpoint_files import config_in, save_checkpoint, save_weights
from random_models import (
    DEEPSEEK2,
    DEEPSEEK3,
    GLM4_MOE,
    GLM4_MOE_LITE,
    LATENT_IN_GROUPS,
    LINEAR_SETTINGS,
    MINIMAX_M2,
    MIXTRAL,
    NO_PAD,
    OLMOE,
    QWEN3_5_MOE,
    QWEN3_MOE,
    QWEN3_NEXT,
)
from torch import Tensor
from transformers import PreTrainedModel

SETTINGS = {
    **tiny.SETTINGS,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_hidden_layers": 2,
    "initializer_range": 0.15,
}
IGNORED = "model.layers.1.mlp.down_proj"
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Rounded:
    """numbers [out, in] and zeros [out, groups] of 0 … 15, scales [out, groups], group of each
    column [in]."""

    numbers: Tensor
    scales: Tensor
    zeros: Tensor
    group_ids: Tensor

    def exact(self) -> Tensor:
        columns = self.group_ids.long()
        return (self.numbers - self.zeros[:, columns]) * self.scales[:, columns]


@dataclass(frozen=True)
class Format:
    """How a checkpoint holds its weights.

    config:     what config.json says
    pack:       the stored tensors of a map, by the last part of their names
    group_size: 0: whole rows
    kept:       a pattern of the names of maps that stay as they are
    """

    config: dict[str, Any]
    pack: Callable[[Rounded], dict[str, Tensor]]
    group_size: int = 32
    is_symmetric: bool = False
    is_ordered: bool = False
    dropped: tuple[str, ...] = field(default=())
    kept: str = "$"


def words_of(numbers: Tensor, places: tuple[int, ...] = tuple(range(8))) -> Tensor:
    """int32 [R, C / 8]: bits 4i … 4i + 3 of a word are number `places[i]` of its eight."""
    words = torch.zeros(numbers.shape[0], numbers.shape[1] // 8, dtype=torch.int64)
    for bit, place in enumerate(places):
        words += numbers[:, place::8].long() * 16**bit
    return torch.where(words >= 1 << 31, words - (1 << 32), words).int()


def awq(it: Rounded) -> dict[str, Tensor]:
    return {
        "qweight": words_of(it.numbers.t(), _AWQ_ORDER),
        "qzeros": words_of(it.zeros.t(), _AWQ_ORDER),
        "scales": it.scales.t().half().contiguous(),
    }


def gptq(offset: int = 0x11111111) -> Callable[[Rounded], dict[str, Tensor]]:
    """offset: that words of zeros are stored less by"""

    def pack(it: Rounded) -> dict[str, Tensor]:
        return {
            "qweight": words_of(it.numbers).t().contiguous(),
            "qzeros": words_of(it.zeros.t()) - offset,
            "scales": it.scales.t().half().contiguous(),
            "g_idx": it.group_ids.int(),
        }

    return pack


def pack_quantized(*extra: str) -> Callable[[Rounded], dict[str, Tensor]]:
    def pack(it: Rounded) -> dict[str, Tensor]:
        tensors = {
            "weight_packed": words_of(it.numbers),
            "weight_scale": it.scales,
            "weight_shape": torch.tensor(it.numbers.shape),
        }
        more = {
            "weight_zero_point": words_of(it.zeros.t()).t().contiguous(),
            "weight_g_idx": it.group_ids.int(),
        }
        return tensors | {name: more[name] for name in extra}

    return pack


def compressed(**weights: Any) -> dict[str, Any]:
    """quantization_config as llm-compressor writes it."""
    own = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
    own |= {"actorder": None, "block_structure": None, "dynamic": False, "observer": "minmax"}
    group = {"targets": ["Linear"], "weights": own | weights, "input_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", IGNORED],
    }


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
AWQ |= {"modules_to_not_convert": ["1.mlp.down"]}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "desc_act": False}
GPTQ |= {"lm_head": False, "dynamic": {r"-:.*\.1\.mlp\.down_proj": {}}, "damp_percent": 0.01}
_ZERO, _ORDER = "weight_zero_point", "weight_g_idx"
FORMATS: dict[str, Format] = {
    "awq": Format(AWQ, awq),
    "awq of 64": Format(AWQ | {"group_size": 64}, awq, 64),
    "gptq": Format(GPTQ | {"sym": True}, gptq(), is_symmetric=True),
    "gptq asymmetric": Format(GPTQ, gptq()),
    "gptq v2": Format(GPTQ | {"checkpoint_format": "gptq_v2"}, gptq(0)),
    "gptq ordered": Format(
        GPTQ | {"desc_act": True, "sym": True}, gptq(), is_symmetric=True, is_ordered=True
    ),
    "gptq ordered v2": Format(
        GPTQ | {"desc_act": True, "checkpoint_format": "gptq_v2", "group_size": 64},
        gptq(0),
        64,
        is_ordered=True,
    ),
    "gptq without g_idx": Format(GPTQ, gptq(), dropped=("g_idx",)),
    "compressed": Format(compressed(), pack_quantized(), is_symmetric=True),
    "compressed asymmetric": Format(compressed(symmetric=False), pack_quantized(_ZERO)),
    "compressed channel": Format(
        compressed(strategy="channel", group_size=None), pack_quantized(), 0, is_symmetric=True
    ),
    "compressed ordered": Format(
        compressed(symmetric=False, actorder="group"),
        pack_quantized(_ZERO, _ORDER),
        is_ordered=True,
    ),
}


_KEPT = r".*(linear_attn.*|shared_expert_gate)$"
_KEPT_MAPS = {
    "awq": {"modules_to_not_convert": ["linear_attn", "expert_gate"]},
    "gptq": {"dynamic": {f"-:{_KEPT}": {}}},
    "compressed-tensors": {"ignore": ["lm_head", f"re:{_KEPT}"]},
}
"""What stays as it is. The routers do too: where a configuration says nothing of them, the names of
their tensors do."""
_FOUR = {"n_routed_experts": 4, "moe_intermediate_size": 96, "first_k_dense_replace": 0}
_BESIDE_LINEAR = {
    **LINEAR_SETTINGS,
    "head_dim": 32,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "num_experts": 4,
    "moe_intermediate_size": 96,
    "shared_expert_intermediate_size": 64,
}
MIXTURES: dict[str, tuple[Any, dict[str, Any]]] = {
    "qwen3-moe": (QWEN3_MOE, {"num_experts": 4, "moe_intermediate_size": 96}),
    "mixtral": (MIXTRAL, {"num_local_experts": 4, "intermediate_size": 96}),
    "olmoe": (OLMOE, {"num_experts": 4, "intermediate_size": 96}),
    "glm4-moe": (GLM4_MOE, _FOUR),
    "glm4-moe-lite": (
        GLM4_MOE_LITE,
        {**LATENT_IN_GROUPS, **NO_PAD, **_FOUR, "mlp_layer_types": ["sparse"] * 2},
    ),
    "deepseek2": (DEEPSEEK2, {**LATENT_IN_GROUPS, **_FOUR, "n_shared_experts": 1}),
    "deepseek3": (DEEPSEEK3, {**LATENT_IN_GROUPS, **_FOUR}),
    "minimax-m2": (MINIMAX_M2, {**NO_PAD, "num_local_experts": 4, "intermediate_size": 96}),
    "qwen3-next": (QWEN3_NEXT, _BESIDE_LINEAR),
    "qwen3.5-moe": (QWEN3_5_MOE, _BESIDE_LINEAR),
}


def save_mixture(folder: Path, name: str, num_chosen: int = 2, mixture: str = "qwen3-moe") -> None:
    """A mixture of 4 experts in a format; its routers and linear attention stay as they are."""
    form = FORMATS[name]
    config = form.config | _KEPT_MAPS[form.config["quant_method"]]
    (config_class, model_class), sizes = MIXTURES[mixture]
    torch.manual_seed(1)
    model = model_class(config_class(**{**SETTINGS, **sizes, "num_experts_per_tok": num_chosen}))
    save(folder, replace(form, config=config, kept=_KEPT), model=model)


def rounded(weight: Tensor, form: Format, order: Tensor) -> Rounded:
    """To the nearest. order: in which columns are put into groups"""
    size = form.group_size or weight.shape[1]
    groups = weight[:, order].unflatten(1, (-1, size))
    least, most = groups.amin(-1), groups.amax(-1)
    if form.is_symmetric:
        scales = groups.abs().amax(-1) / 7.5
        zeros = torch.full_like(scales, 8.0)
    else:
        scales = (most - least) / 15
        zeros = (-least / scales).round().clamp(0, 15)
    scales = scales.half().float()
    group_ids = torch.empty(len(order), dtype=torch.long)
    group_ids[order] = torch.arange(len(order)) // size
    numbers = (weight / scales[:, group_ids] + zeros[:, group_ids]).round().clamp(0, 15)
    return Rounded(numbers, scales, zeros, group_ids)


def save(folder: Path, form: Format, seed: int = 0, model: PreTrainedModel | None = None) -> None:
    """A model, or else a Llama, in this format; `exact/` in it holds the numbers that its weights
    stand for."""
    weights = tiny.save_exact(folder / "exact", SETTINGS, seed, model)
    tiny.save_tokenizer(folder)
    exact = dict(weights)
    for name in filter(is_converted, exact):
        stem = name.removesuffix("weight")
        if re.match(form.kept, stem.removesuffix(".")):
            continue
        weight = weights.pop(name)
        it = rounded(weight, form, _order(name, weight.shape[1], form))
        exact[name] = it.exact()
        tensors = {key: value for key, value in form.pack(it).items() if key not in form.dropped}
        weights |= {stem + key: value for key, value in tensors.items()}
    config = config_in(folder / "exact")
    save_checkpoint(folder, config | {"quantization_config": form.config}, weights)
    save_weights(folder / "exact", exact)


def _order(name: str, num_columns: int, form: Format) -> Tensor:
    """The same for all maps of one input."""
    if not form.is_ordered:
        return torch.arange(num_columns)
    kind = (
        *("q_proj k_proj v_proj", "o_proj", "gate_proj up_proj w1 w3", "down_proj w2"),
        *("q_a_proj kv_a_proj_with_mqa", "q_b_proj", "kv_b_proj"),
    )
    number = next(i for i, names in enumerate(kind) if name.split(".")[-2] in names.split())
    random = torch.Generator().manual_seed(number + 10 * int(name.split(".")[2]))
    return torch.randperm(num_columns, generator=random)


def is_converted(name: str) -> bool:
    ends = (
        "_proj.weight",
        "_with_mqa.weight",
        "_linear.weight",
        ".w1.weight",
        ".w2.weight",
        ".w3.weight",
    )
    return (name.endswith(ends) or ".in_proj_" in name) and not name.startswith(IGNORED)
