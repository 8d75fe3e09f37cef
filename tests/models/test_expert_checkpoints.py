"""Experts in the forms in which checkpoints hold them, beside the numbers that they stand for."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_files import changed_json, config_in, save_checkpoint, weights_in
from float8_checkpoints import rounded_inputs
from random_models import (
    DEEPSEEK2,
    DEEPSEEK3,
    GEMMA4,
    GEMMA4_EXPERTS,
    GEMMA4_SETTINGS,
    GLM4_MOE,
    GLM4_MOE_LITE,
    GPT_OSS,
    GPT_OSS_SETTINGS,
    LATENT_IN_GROUPS,
    LINEAR_SETTINGS,
    MINIMAX_M2,
    MIXTRAL,
    NO_PAD,
    OLMOE,
    QWEN3_5_MOE,
    QWEN3_MOE,
    QWEN3_NEXT,
    random_model,
    tokens,
)
from torch import Tensor
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from benchmarks.models.logits import logits_of
from specguide import kernels
from specguide.errors import CheckpointError
from specguide.kernels import experts as twins
from specguide.kernels.experts import mxfp4_numbers
from specguide.models import Decoder

SHARED = {"num_experts": 3, "num_experts_per_tok": 2, "norm_topk_prob": True}


def logits(folder: Path) -> Tensor:
    return logits_of(Decoder.load(folder), tokens(20).tolist())


def random_mxfp4(*shape: int) -> tuple[Tensor, Tensor]:
    """Blocks [*shape, 16] of 32 numbers, and their scales."""
    random = torch.Generator().manual_seed(len(shape))
    blocks = torch.randint(0, 256, (*shape, 16), generator=random, dtype=torch.uint8)
    return blocks, torch.randint(118, 126, shape, generator=random, dtype=torch.uint8)


def test_four_bits_are_the_numbers_of_transformers() -> None:
    blocks, scales = random_mxfp4(2, 6, 3)
    expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).mT
    assert torch.equal(mxfp4_numbers(blocks.flatten(2), scales), expected)


def test_gpt_oss_in_mxfp4_is_the_folder_of_its_numbers(tmp_path: Path) -> None:
    random_model(GPT_OSS, **GPT_OSS_SETTINGS, intermediate_size=32).save_pretrained(tmp_path)
    config, exact = config_in(tmp_path), weights_in(tmp_path)
    packed = dict(exact)
    for name in [name for name in exact if name.endswith(("gate_up_proj", "down_proj"))]:
        num_experts, in_features, out_features = packed.pop(name).shape
        blocks, scales = random_mxfp4(num_experts, out_features, in_features // 32)
        exact[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        packed[f"{name}_blocks"], packed[f"{name}_scales"] = blocks, scales
    method = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]}
    stated = {**config, "quantization_config": method}
    found = logits(save_checkpoint(tmp_path / "packed", stated, packed))
    expected = logits(save_checkpoint(tmp_path / "exact", config, exact))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert expected.std() > 0.1


def in_blocks(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """float8, the scales of its blocks of 128 × 128, and the numbers that they stand for."""
    tiles = weight.unflatten(1, (-1, 128)).unflatten(0, (-1, 128))
    scales = tiles.abs().amax((1, 3)) / 448
    stored = (tiles / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    exact = stored.float() * scales[:, None, :, None]
    return stored.reshape(weight.shape), scales, exact.reshape(weight.shape)


def in_rows(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scales = weight.abs().amax(1, keepdim=True) / 448
    stored = (weight / scales).to(torch.float8_e4m3fn)
    return stored, scales, stored.float() * scales


def in_tensors(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scale = weight.abs().max() / 448
    stored = (weight / scale).to(torch.float8_e4m3fn)
    return stored, scale, stored.float() * scale


NOT_ROUNDED = [
    f"model.layers.{layer}.{name}"
    for layer in range(3)
    for name in ("self_attn", "linear_attn", "mlp.shared_experts", "mlp.shared_expert")
] + ["router.proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
# How weights are rounded, the name of their scales, how inputs are rounded, what config.json says
FP8 = {
    "blocks": (
        in_blocks,
        "weight_scale_inv",
        "group",
        {
            "quant_method": "fp8",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": ["mlp.gate", "block_sparse_moe.gate", *NOT_ROUNDED],
        },
    ),
    "rows": (
        in_rows,
        "weight_scale",
        "token",
        {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "ignore": [
                "re:.*(attn|shared_experts?|shared_expert_gate).*",
                r"re:.*mlp\.(gate|up|down)_proj$",
                "lm_head",
            ],
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                    "input_activations": {
                        "num_bits": 8,
                        "type": "float",
                        "strategy": "token",
                        "dynamic": True,
                    },
                }
            },
        },
    ),
    "static": (
        in_tensors,
        "weight_scale",
        "static",
        {
            "quant_method": "fp8",
            "activation_scheme": "static",
            "ignored_layers": ["mlp.gate", "block_sparse_moe.gate", *NOT_ROUNDED],
        },
    ),
}


SIZES = {"hidden_size": 128, "head_dim": 24, "num_experts_per_tok": 2}
DEEPSEEK_SIZES = {
    **LATENT_IN_GROUPS,
    "q_lora_rank": 128,
    "hidden_size": 128,
    "num_experts_per_tok": 2,
    "n_routed_experts": 3,
    "moe_intermediate_size": 256,
    "first_k_dense_replace": 0,
}
BESIDE_LINEAR = {
    "num_experts": 3,
    "moe_intermediate_size": 256,
    "shared_expert_intermediate_size": 256,
}
MIXTURES = {
    "qwen3-moe": (QWEN3_MOE, {**SIZES, **SHARED, "moe_intermediate_size": 256}),
    "qwen3.5-moe": (QWEN3_5_MOE, {**LINEAR_SETTINGS, **SIZES, **BESIDE_LINEAR}),
    "qwen3-next": (QWEN3_NEXT, {**LINEAR_SETTINGS, **SIZES, **BESIDE_LINEAR}),
    "gemma4": (
        GEMMA4,
        {
            **GEMMA4_SETTINGS,
            **GEMMA4_EXPERTS,
            "hidden_size": 128,
            "moe_intermediate_size": 256,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        },
    ),
    "mixtral": (MIXTRAL, {**SIZES, "num_local_experts": 3, "intermediate_size": 256}),
    "olmoe": (OLMOE, {**NO_PAD, "hidden_size": 128, **SHARED, "intermediate_size": 256}),
    "glm4-moe": (
        GLM4_MOE,
        {
            **SIZES,
            "n_routed_experts": 3,
            "moe_intermediate_size": 256,
            "first_k_dense_replace": 0,
        },
    ),
    "glm4-moe-lite": (
        GLM4_MOE_LITE,
        {**NO_PAD, **DEEPSEEK_SIZES, "mlp_layer_types": ["sparse"] * 3},
    ),
    "deepseek2": (DEEPSEEK2, {**DEEPSEEK_SIZES, "n_shared_experts": 1}),
    "deepseek3": (DEEPSEEK3, DEEPSEEK_SIZES),
    "minimax-m2": (
        MINIMAX_M2,
        {**NO_PAD, **SIZES, "num_local_experts": 3, "intermediate_size": 256},
    ),
}


def test_experts_that_are_stacked(tmp_path: Path) -> None:
    """As transformers itself has them in memory, and as Qwen3.5 is published."""
    model = random_model(QWEN3_5_MOE, **MIXTURES["qwen3.5-moe"][1])
    model.save_pretrained(tmp_path)
    separate = weights_in(tmp_path)
    stacked = model.state_dict()
    assert any(name.endswith("experts.gate_up_proj") for name in stacked)
    assert stacked.keys() != separate.keys()
    folder = save_checkpoint(tmp_path / "stacked", config_in(tmp_path), stacked)
    assert torch.equal(logits(folder), logits(tmp_path))


def separate(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same with a tensor for each map of each expert."""
    found = {name: it for name, it in weights.items() if it.dim() < 3}
    for name in weights.keys() - found.keys():
        stem, _, stacked = name.rpartition(".")
        maps = ("gate_proj", "up_proj") if stacked == "gate_up_proj" else (stacked,)
        for expert, of_expert in enumerate(weights[name]):
            for own, matrix in zip(maps, of_expert.chunk(len(maps)), strict=True):
                found[f"{stem}.{expert}.{own}.weight"] = matrix
    return found


def save_in_fp8(folder: Path, name: str, mixture: str, *unreached: int) -> tuple[Path, Path]:
    """A checkpoint whose experts are in fp8, and one of the numbers that these stand for.
    unreached: experts that no sample of the calibration reached"""
    (quantized, scale_name, inputs, method), (family, sizes) = FP8[name], MIXTURES[mixture]
    random_model(family, **sizes).save_pretrained(folder)
    config, exact = config_in(folder), weights_in(folder)
    if mixture == "gemma4":
        exact = separate(exact)
    stored = dict(exact)
    for weight in [weight for weight in exact if ".experts." in weight]:
        stored[weight], scales, exact[weight] = quantized(exact[weight])
        stored[weight.replace("weight", scale_name)] = scales
        if inputs == "static":
            is_reached = not any(f".experts.{number}." in weight for number in unreached)
            stored[weight.replace("weight", "input_scale")] = torch.tensor(0.05 * is_reached)
    save_checkpoint(folder / "stored", {**config, "quantization_config": method}, stored)
    return folder / "stored", save_checkpoint(folder / "exact", config, exact)


def round_inputs(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Experts in float32 get inputs that were rounded to float8."""
    both = (kernels.gated_experts, twins.gated_experts), (kernels.expert_parts, twins.expert_parts)
    for operation, twin in both:

        def rounding(x: Tensor, *rest: Any, twin: Any = twin) -> Tensor:
            return twin(rounded_inputs(x, kind), *rest)

        patch.setitem(operation.implementations, torch.device("cpu"), rounding)


@pytest.mark.parametrize(
    ("name", "mixture"),
    [*product(("blocks", "rows"), MIXTURES), ("static", "mixtral"), ("static", "deepseek3")],
)
def test_experts_in_fp8_are_the_folder_of_their_numbers(
    name: str, mixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They agree but where an input lies between two numbers of float8, and rounding it the other
    way changes what follows a little."""
    stored, exact = save_in_fp8(tmp_path, name, mixture, 1)
    found, unrounded = logits(stored), logits(exact)
    round_inputs(monkeypatch, FP8[name][2])
    expected = logits(exact)
    error = (found - expected).abs().mean()
    assert error < 0.02 * (unrounded - expected).abs().mean()
    assert expected.std() > 0.1


@pytest.mark.parametrize("quantization", ["fp8", "int4"])
@pytest.mark.parametrize("mixture", ["qwen3-moe", "gemma4"])
def test_routers_are_not_rounded(mixture: str, quantization: str, tmp_path: Path) -> None:
    family, sizes = MIXTURES[mixture]
    random_model(family, **sizes).save_pretrained(tmp_path)
    found = Decoder.load(tmp_path, quantization=quantization).layers[0].destinations()
    routers = [
        it for name, it in found.items() if name.endswith((".gate.weight", "router.proj.weight"))
    ]
    assert [it.tensor.dtype for it in routers] == [torch.float32]


def with_stacked_scales(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same as transformers 5 saves them: experts one by one, the scales of all in one."""
    scales = "weight_scale_inv"
    found = {name: it for name, it in weights.items() if ".experts." not in name}
    found |= {name: it for name, it in weights.items() if name.endswith(".weight")}
    for name in [name for name in weights if f".experts.0.w2.{scales}" in name]:
        stem = name.removesuffix(f"0.w2.{scales}")
        for stacked, maps in (("gate_up_proj", ("w1", "w3")), ("down_proj", ("w2",))):
            found[f"{stem}{stacked}_scale_inv"] = torch.stack(
                [
                    torch.cat([weights[f"{stem}{expert}.{own}.{scales}"] for own in maps])
                    for expert in range(3)
                ]
            )
    return found


def test_scales_that_are_stacked(tmp_path: Path) -> None:
    stored, _ = save_in_fp8(tmp_path, "blocks", "mixtral")
    config, weights = config_in(stored), weights_in(stored)
    stacked = with_stacked_scales(weights)
    assert stacked.keys() != weights.keys()
    stacked["model.layers.0.block_sparse_moe.gate.weight_scale_inv"] = torch.ones(1, 1)
    assert torch.equal(
        logits(save_checkpoint(tmp_path / "stacked", config, stacked)), logits(stored)
    )


def test_experts_of_which_no_sample_reached_any_are_refused(tmp_path: Path) -> None:
    stored, _ = save_in_fp8(tmp_path, "static", "mixtral", 0, 1, 2)
    message = (
        r"experts\.\d+\.w1\.input_scale is 0, and so are those of all experts of the layer: inp"
    )
    with pytest.raises(CheckpointError, match=message):
        Decoder.load(stored)


@pytest.mark.parametrize(
    ("family", "settings", "method", "message"),
    [
        (
            QWEN3_MOE,
            {**SHARED, "moe_intermediate_size": 32},
            "mxfp4",
            "not supported in this format",
        ),
        (GPT_OSS, GPT_OSS_SETTINGS, "fp8", "gpt-oss is supported in mxfp4 and in bfloat16"),
        (GPT_OSS, GPT_OSS_SETTINGS, "mxfp4", "48 input features, and mxfp4 needs a multiple of 32"),
        (
            MIXTRAL,
            {},
            "bitsandbytes",
            "'bitsandbytes'.* has no 'quant_method' that is supported; supported: ",
        ),
    ],
)
def test_what_experts_are_not_held_in_is_refused(
    family: Any, settings: dict[str, Any], method: str, message: str, tmp_path: Path
) -> None:
    random_model(family, **settings).save_pretrained(tmp_path)
    with changed_json(tmp_path) as config:
        config["quantization_config"] = {"quant_method": method}
    with pytest.raises(CheckpointError, match=message):
        Decoder.load(tmp_path)
