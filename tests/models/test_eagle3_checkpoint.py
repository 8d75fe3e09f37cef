"""What the folder of an EAGLE-3 head may get wrong: each fault is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_files import save_checkpoint
from eagle3_heads import CONFIG, NUM_LAYERS, Weights, load_target, random_head

from specguide.errors import CheckpointError
from specguide.models import Decoder, Eagle3Config, Eagle3Head


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return load_target(tmp_path_factory.mktemp("target"))


@pytest.mark.parametrize(
    ("settings", "layers"),
    [
        ({"eagle_aux_hidden_state_layer_ids": [1, 4, 6]}, (1, 4, 6)),
        (
            {
                "eagle_config": {
                    "use_aux_hidden_state": True,
                    "eagle_aux_hidden_state_layer_ids": [0, 3, 5],
                }
            },
            (1, 4, 6),
        ),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": []}}, (2, 3, 3)),
        (
            {
                "eagle_aux_hidden_state_layer_ids": [1, 4, 6],
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3, 5]},
            },
            (1, 4, 6),
        ),
        ({"aux_hidden_state_layer_ids": [1, 4, 6]}, (1, 4, 6)),
        ({"target_layer_ids": [0, 3, 5]}, (1, 4, 6)),
        (
            {
                "aux_hidden_state_layer_ids": [1, 4, 6],
                "target_layer_ids": [0, 3, 5],
                "num_aux_hidden_states": 3,
            },
            (1, 4, 6),
        ),
        ({"eagle_config": {"aux_hidden_state_layer_ids": [0, 3, 5]}}, (1, 4, 6)),
        ({"eagle_config": {"target_layer_ids": [0, 3, 5]}}, (1, 4, 6)),
        ({"eagle_aux_hidden_state_layer_ids": [1, -3, -1]}, (1, 4, 6)),
        ({"target_layer_ids": [-1, 3, 5]}, (0, 4, 6)),
    ],
)
def test_tapped_layers(settings: dict[str, Any], layers: tuple[int, ...]) -> None:
    assert Eagle3Config.from_hf({**CONFIG, **settings}).aux_layers(NUM_LAYERS) == layers


@pytest.mark.parametrize(
    ("settings", "window"),
    [
        ({}, None),
        ({"sliding_window": None}, None),
        ({"sliding_window": 7}, 7),
        ({"sliding_window": 7, "use_sliding_window": True}, 7),
        ({"sliding_window": 7, "use_sliding_window": False}, None),
        ({"sliding_window": 7, "max_window_layers": 28}, None),  # as Qwen's configurations mean it
        ({"sliding_window": 7, "max_window_layers": 28, "use_sliding_window": False}, None),
        ({"sliding_window": 7, "max_window_layers": 0, "use_sliding_window": True}, 7),
        ({"sliding_window": 7, "layer_types": ["full_attention"]}, None),
        ({"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]}, 7),
    ],
)
def test_windows(settings: dict[str, Any], window: int | None) -> None:
    assert Eagle3Config.from_hf({**CONFIG, **settings}).layer.sliding_windows == (window,)
    nested = {"transformer_layer_config": {**CONFIG, **settings}, "norm_before_residual": False}
    assert Eagle3Config.from_hf(nested).layer.sliding_windows == (window,)


CONFIG_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"vocab_size": 91}, "its vocabulary has 91 tokens, the target's 90"),
    ({"target_hidden_size": 32}, "it expects hidden size 32, and the target has 24"),
    ({"draft_vocab_size": 91}, "'draft_vocab_size' 91 is more than 'vocab_size' 90"),
    ({"draft_vocab_size": 32}, r"d2t \(expected \[32\], found \[33\]\)"),
    ({"hidden_act": "gelu"}, r"config\.json: 'hidden_act' 'gelu' is not supported"),
    ({"fc_norm": True}, r"missing weights: fc_norm\.0\.weight, fc_norm\.1\.weight"),
    ({"norm_before_fc": True}, r"missing weights: input_norm\.weight"),
    (
        {"fc_norm": True, "norm_before_fc": True},
        "'fc_norm' and 'norm_before_fc' cannot both be true",
    ),
    ({"bias": True}, "'bias' True is not supported"),
    ({"nap_time": "noon"}, "'nap_time' 'noon' is unknown"),
    (
        {"eagle_config": {"use_aux_hidden_state": False}},
        "'use_aux_hidden_state' False is not supported",
    ),
    (
        {"eagle_aux_hidden_state_layer_ids": [1, 3, 7]},
        "inputs of layers 1, 3, 7 of the target, which has 6 layers",
    ),
    (
        {"eagle_aux_hidden_state_layer_ids": [1, 3]},
        r"fc\.weight \(expected \[24, 48\], found \[24, 72\]\)",
    ),
    ({"eagle_aux_hidden_state_layer_ids": [1, "3"]}, "must be a list of integers"),
    (
        {
            "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5]},
        },
        "the head reads twice, and differently",
    ),
    (
        {"aux_hidden_state_layer_ids": [1, 3, 5], "target_layer_ids": [1, 3, 5]},
        "the head reads twice, and differently",
    ),
    ({"target_layer_ids": 3}, "'target_layer_ids' must be a list of integers"),
    (
        {"target_layer_ids": [1, 2, 3], "num_aux_hidden_states": 4},
        "'num_aux_hidden_states' is 4, but",
    ),
    ({"sliding_window": "x"}, "'sliding_window' must be an integer"),
    ({"layer_types": ["sliding_attention"]}, "'sliding_window' is missing"),
    ({"layer_types": ["chunked_attention"]}, "'layer_types' must be"),
    (
        {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 28},
        "'max_window_layers' 28 leaves",
    ),
    ({"logit_scale": 0.5}, "'logit_scale' 0.5 is not supported"),
    (
        {"eagle_config": {"use_last_layernorm": False}},
        r"weights that the model does not have: norm\.weight",
    ),
    ({"eagle_config": {"feature_scale": 2.0}}, "'feature_scale' 2.0 is unknown"),
    ({"eagle_config": 3}, "'eagle_config' must be a JSON object, found 3"),
    ({"dflash_config": {"target_layer_ids": [1, 2, 3]}}, "'dflash_config' .* is not supported"),
    ({"speculators_model_type": "dflash"}, "'speculators_model_type' 'dflash' is not supported"),
    ({"speculators_model_type": "peagle"}, "missing weights: mask_hidden"),
    ({"parallel_drafting": True}, "missing weights: mask_hidden"),
    ({"architectures": ["DFlashDraftModel"]}, "'DFlashDraftModel' is not supported as a draft"),
    ({"eagle_aux_hidden_state_layer_ids": [-9, 1, 2]}, "inputs of layers -2, 1, 2 of the target"),
    ({"target_layer_ids": [-2, 1, 2]}, "or -1 for the embeddings"),
    (
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "'dynamic' is supported up to its 16 positions",
    ),
    ({"attention_bias": True}, r"missing weights: midlayer\.self_attn\.k_proj\.bias"),
]


@pytest.mark.parametrize(("settings", "message"), CONFIG_FAULTS)
def test_configurations_that_do_not_fit(
    settings: dict[str, Any], message: str, target: Decoder, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path, {**CONFIG, **settings}, random_head(CONFIG))
    with pytest.raises(CheckpointError, match=message):
        Eagle3Head.load(tmp_path, target)


def set_item(name: str, index: int, value: int) -> Callable[[Weights], object]:
    return lambda weights: weights[name].__setitem__(index, value)


WEIGHT_FAULTS: list[tuple[Callable[[Weights], object], str]] = [
    (
        set_item("d2t", 7, 500),
        r"d2t\[7\] = 500 leads to target id 507, outside the vocabulary of 90",
    ),
    (set_item("d2t", 0, -1), r"d2t\[0\] = -1 leads to target id -1"),
    (
        lambda weights: weights.update(d2t=weights["d2t"] + torch.arange(33)),
        "must hold offsets|maps 2 draft ids|t2d",
    ),
    (lambda weights: weights["d2t"].__setitem__(5, weights["d2t"][4] - 1), "maps 2 draft ids to"),
    (
        lambda weights: weights["t2d"].logical_not_(),
        r"t2d\[0\] is (True|False), but d2t says that target id 0 is ",
    ),
    (
        lambda weights: weights.update(t2d=weights["t2d"][:-1]),
        r"t2d \(expected \[90\], found \[89\]\)",
    ),
    (
        lambda weights: weights.update(d2t=weights["d2t"].float()),
        r"cannot be converted: d2t \(F32\)",
    ),
    (
        lambda weights: weights.pop("d2t"),
        "'d2t' is missing: a head with 33 of the target's 90 tokens",
    ),
    (lambda weights: weights.pop("lm_head.weight"), r"missing weights: lm_head\.weight"),
    (lambda weights: weights.pop("fc.weight"), r"missing weights: fc\.weight"),
    (lambda weights: weights.update(mask_hidden=torch.ones(1, 1, 72)), "'mask_token_id' is miss"),
    (
        lambda weights: weights.pop("midlayer.hidden_norm.weight"),
        "as in heads of EAGLE 1 and 2, which are not supported",
    ),
    (
        lambda weights: weights.update({"layers.1.mlp.up_proj.weight": torch.ones(2)}),
        r"does not have: layers\.1\.mlp\.up_proj\.weight",
    ),
    (
        lambda weights: weights.update({"layers.0.hidden_norm.weight": torch.ones(24)}),
        r"there twice: (midlayer|layers\.0)\.hidden_norm\.weight",
    ),
]


@pytest.mark.parametrize(
    ("change", "message"), WEIGHT_FAULTS, ids=[message for _, message in WEIGHT_FAULTS]
)
def test_weights_that_do_not_fit(
    change: Callable[[Weights], object], message: str, target: Decoder, tmp_path: Path
) -> None:
    weights = random_head(CONFIG)
    change(weights)
    with pytest.raises(CheckpointError, match=message):
        Eagle3Head.load(save_checkpoint(tmp_path, CONFIG, weights), target)


def test_map_without_its_inverse(target: Decoder, tmp_path: Path) -> None:
    weights = random_head(CONFIG)
    del weights["t2d"]
    assert len(Eagle3Head.load(save_checkpoint(tmp_path, CONFIG, weights), target).target_ids) == 33


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_an_inverse_of_zeros_and_ones(dtype: torch.dtype, target: Decoder, tmp_path: Path) -> None:
    weights = random_head(CONFIG)
    weights["t2d"] = weights["t2d"].to(dtype)
    assert len(Eagle3Head.load(save_checkpoint(tmp_path, CONFIG, weights), target).target_ids) == 33


def test_files_and_places(target: Decoder, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a folder"):
        Eagle3Head.load(tmp_path / "nowhere", target)
    with pytest.raises(CheckpointError, match=r"holds no config\.json"):
        Eagle3Head.load(tmp_path, target)
    save_checkpoint(tmp_path, CONFIG, random_head(CONFIG))
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        Eagle3Head.load(tmp_path, target)
