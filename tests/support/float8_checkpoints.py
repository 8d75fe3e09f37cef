"""Random checkpoints in each float8 format, and the models that they stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tiny
import torch
from checkpoint_files import config_in, save_checkpoint, save_weights
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

SETTINGS = {
    **tiny.SETTINGS,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "num_hidden_layers": 2,
    "initializer_range": 0.15,
}
"""Sizes are multiples of the 128 of a block."""

IGNORED = "model.layers.1.mlp.down_proj"
_MATRIX = 448.0
_INPUT_SCALE = 0.05


@dataclass(frozen=True)
class Format:
    """How a checkpoint holds its weights.

    config:     what config.json says
    scale_of:   of a weight: what is stored, and the same for each number
    scale_name: of the stored scales
    inputs:     rounds inputs: "token", "static" or "group"
    file:       where `config` stands in a file of its own
    input_name: of the stored scales of inputs
    """

    config: dict[str, Any]
    scale_of: Callable[[Tensor], tuple[Tensor, Tensor]]
    scale_name: str = "weight_scale"
    inputs: str = "token"
    file: str | None = None
    input_name: str = "input_scale"


def per_tensor(weight: Tensor, shape: tuple[int, ...] = (1,)) -> tuple[Tensor, Tensor]:
    scale = weight.abs().max() / _MATRIX
    return scale.reshape(shape), scale


def per_channel(weight: Tensor) -> tuple[Tensor, Tensor]:
    scale = weight.abs().amax(1, keepdim=True) / _MATRIX
    return scale, scale


def per_block(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The last block of rows may be smaller."""
    columns = weight.shape[1] // 128
    blocks = [rows.reshape(-1, columns, 128).abs().amax((0, 2)) for rows in weight.split(128)]
    scale = torch.stack(blocks) / _MATRIX
    return scale, scale.repeat_interleave(128, 0)[: len(weight)].repeat_interleave(128, 1)


def per_block_of_four_dimensions(weight: Tensor) -> tuple[Tensor, Tensor]:
    scale, of_each = per_block(weight)
    return scale[:, None, :, None], of_each


def compressed(weights: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """quantization_config as llm-compressor writes it."""
    own = {"num_bits": 8, "type": "float", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**own, "dynamic": False, "observer": "minmax", **weights},
        "input_activations": {**own, "observer": None, "observer_kwargs": {}, **inputs},
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "quantization_status": "compressed",
        "global_compression_ratio": 1.5,
        "kv_cache_scheme": None,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", r"re:.*layers\.1\.mlp\.down_proj"],
    }


_SCALAR = partial(per_tensor, shape=())
_TOKEN = {"strategy": "token", "dynamic": True}
FORMATS: dict[str, Format] = {
    "compressed tensor, static": Format(
        compressed({"strategy": "tensor"}, {"strategy": "tensor", "dynamic": False}),
        per_tensor,
        inputs="static",
    ),
    "compressed tensor, token": Format(compressed({"strategy": "tensor"}, _TOKEN), per_tensor),
    "compressed channel, token": Format(compressed({"strategy": "channel"}, _TOKEN), per_channel),
    "compressed block": Format(
        compressed(
            {"strategy": "block", "block_structure": [128, 128]},
            {"strategy": "group", "group_size": 128, "dynamic": True},
        ),
        per_block,
        inputs="group",
    ),
    "fp8 dynamic": Format(
        {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "ignored_layers": ["lm_head", IGNORED],
        },
        _SCALAR,
    ),
    "fp8 static": Format(
        {
            "quant_method": "fp8",
            "activation_scheme": "static",
            "modules_to_not_convert": ["layers.1.mlp.down_proj"],
        },
        _SCALAR,
        inputs="static",
    ),
    "fp8 of transformers": Format(
        {
            "quant_method": "fp8",
            "activation_scheme": "static",
            "dequantize": False,
            "modules_to_not_convert": ["lm_head", IGNORED],
            "modules_to_convert": None,
            "weight_block_size": None,
            "scale_fmt": "float",
            "expert_dtype": "fp8",
        },
        _SCALAR,
        "weight_scale_inv",
        "static",
        input_name="activation_scale",
    ),
    "fp8 block": Format(
        {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "scale_fmt": "ue8m0",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": [IGNORED],
        },
        per_block,
        "weight_scale_inv",
        "group",
    ),
    "modelopt": Format(
        {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head", IGNORED + "*"]},
        _SCALAR,
        inputs="static",
    ),
    "modelopt block": Format(
        {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "ignore": ["lm_head", IGNORED]},
        per_block_of_four_dimensions,
        inputs="group",
    ),
    "modelopt's file": Format(
        {
            "producer": {"name": "modelopt", "version": "0.29.0"},
            "quantization": {
                "quant_algo": "FP8",
                "kv_cache_quant_algo": None,
                "exclude_modules": ["lm_head", "*.1.mlp.down_proj"],
            },
        },
        _SCALAR,
        inputs="static",
        file="hf_quant_config.json",
    ),
}


def save(folder: Path, form: Format, seed: int = 0, model: PreTrainedModel | None = None) -> None:
    """A model, or else a Llama, in this format; `exact/` in it holds the numbers that its weights
    stand for."""
    weights = tiny.save_exact(folder / "exact", SETTINGS, seed, model)
    tiny.save_tokenizer(folder)
    exact = dict(weights)
    for name in [name for name in weights if is_converted(name)]:
        stem = name.removesuffix("weight")
        stored, scale = form.scale_of(weights[name])
        weights[name] = (weights[name] / scale).clamp(-_MATRIX, _MATRIX).to(torch.float8_e4m3fn)
        exact[name] = weights[name].float() * scale
        weights[stem + form.scale_name] = stored.clone()
        if form.inputs == "static":
            weights[stem + form.input_name] = torch.full(stored.shape, _INPUT_SCALE)
    save_weights(folder / "exact", exact)
    config = config_in(folder / "exact")
    if form.file is None:
        config["quantization_config"] = form.config
    else:
        (folder / form.file).write_text(json.dumps(form.config))
    save_checkpoint(folder, config, weights)


def is_converted(name: str) -> bool:
    ends = ("_proj.weight", "_linear.weight", "_with_mqa.weight")
    return (name.endswith(ends) or ".in_proj_" in name) and not name.startswith(IGNORED)


def reference(folder: Path, form: Format) -> nn.Module:
    """transformers' model of `exact/`, in which inputs are rounded before they are multiplied;
    latents are not, since the map that expands them is absorbed by others."""
    model = AutoModelForCausalLM.from_pretrained(folder / "exact").eval()
    for name, module in model.named_modules():
        if is_converted(f"{name}.weight") and not name.endswith("kv_b_proj"):
            module.register_forward_pre_hook(
                lambda module, inputs: (rounded_inputs(inputs[0], form.inputs),)
            )
    return model


def rounded_inputs(x: Tensor, kind: str) -> Tensor:
    """Rounded to float8 and back."""
    groups = x.unflatten(-1, (-1, 128 if kind == "group" else x.shape[-1]))
    scale = groups.abs().amax(-1, keepdim=True) / _MATRIX
    scale = torch.full_like(scale, _INPUT_SCALE) if kind == "static" else scale
    values = (groups / scale).clamp(-_MATRIX, _MATRIX).to(torch.float8_e4m3fn)
    return (values.float() * scale).flatten(-2)
