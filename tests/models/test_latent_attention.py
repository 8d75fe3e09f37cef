"""Latent attention: what is stored, checkpoints in fp8, and what config.json may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import float8_checkpoints
import pytest
import tiny
import torch
from published_configs import PUBLISHED
from random_models import DEEPSEEK3, DEEPSEEK3_SETTINGS, LATENT_IN_GROUPS, random_model, tokens

from benchmarks.models.logits import logits_of
from specguide import LLM
from specguide.errors import CheckpointError, InvalidParams
from specguide.kernels.experts import RoutingRule
from specguide.models import Decoder, MtpHead, config_of
from specguide.models.mtp import MtpLayout
from specguide.speculation.drafters import keys_of

V3 = {
    name: value for name, value in PUBLISHED["DeepSeek-V3"].items() if name != "quantization_config"
}


def test_one_key_a_token_is_stored_for_all_heads() -> None:
    config: Any = config_of(V3)
    assert keys_of(Decoder.skeleton(config)).kinds == ((61, 1, 576, False),)
    assert config.experts.rule == RoutingRule(
        8, is_sigmoid=True, scale=2.5, num_groups=8, num_kept_groups=4
    )
    assert config.latent.scale == pytest.approx(192**-0.5 * (0.1 * 3.6888795 + 1) ** 2)


def test_routers_are_plain_though_the_configuration_does_not_say_so() -> None:
    model = Decoder.skeleton(config_of(PUBLISHED["DeepSeek-V3"])).destinations()
    layer = "model.layers.3."
    assert f"{layer}mlp.experts.255.gate_proj.weight_scale_inv" in model
    assert f"{layer}self_attn.kv_b_proj.weight_scale_inv" in model
    assert f"{layer}mlp.gate.e_score_correction_bias" in model
    assert [name for name in model if name.startswith(f"{layer}mlp.gate.w")] == [
        f"{layer}mlp.gate.weight"
    ]


@torch.inference_mode()
def test_blocks_of_fp8_that_no_block_size_divides(tmp_path: Path) -> None:
    """The keys' map has 136 rows, as DeepSeek-V3's has 576."""
    sizes = {"hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 4}
    ranks = {"kv_lora_rank": 128, "q_lora_rank": 128, "v_head_dim": 32, "initializer_range": 0.1}
    settings = {**LATENT_IN_GROUPS, **sizes, **ranks, "first_k_dense_replace": 3}
    form = float8_checkpoints.FORMATS["fp8 block"]
    float8_checkpoints.save(tmp_path, form, model=random_model(DEEPSEEK3, **settings))
    ids = tokens(24)
    expected = float8_checkpoints.reference(tmp_path, form)(ids[None]).logits[0]
    found = logits_of(Decoder.load(tmp_path), ids.tolist())
    unrounded = logits_of(Decoder.load(tmp_path / "exact"), ids.tolist())
    error = (found - expected).abs().mean()
    assert error < 0.2 * (unrounded - expected).abs().mean()


def test_a_cache_in_fp8_is_refused(tmp_path: Path) -> None:
    random_model(DEEPSEEK3, **DEEPSEEK3_SETTINGS).save_pretrained(tmp_path)
    tiny.save_tokenizer(tmp_path)
    with pytest.raises(InvalidParams, match="'fp8' is not supported for latent attention"):
        LLM(tmp_path, kv_cache_dtype="fp8", spec=None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_group": 7}, "'n_group' 7 and 'topk_group' 4 do not fit 256 experts"),
        ({"topk_group": 9}, "'n_group' 8 and 'topk_group' 9 do not fit 256 experts"),
        (
            {"n_routed_experts": 16, "topk_group": 2},
            "'topk_group' 2 leaves 4 experts to choose 8 from",
        ),
        ({"qk_rope_head_dim": 63}, "'qk_rope_head_dim' must be even, found 63"),
        ({"kv_lora_rank": 0}, "'kv_lora_rank' must be"),
        ({"attention_bias": True}, "'attention_bias' True is not supported"),
        ({"mlp_layer_types": ["dense"]}, "'mlp_layer_types' must be 'dense', then 'sparse'"),
        ({"scoring_func": "softmax"}, "'scoring_func' 'softmax' is not supported"),
        ({"index_topk": 2048}, "'index_topk' 2048 is unknown"),
    ],
)
def test_what_is_refused_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        config_of({**V3, **settings}, strict=True)


def test_an_odd_share_of_the_hidden_size() -> None:
    config = config_of(V3 | {"hidden_size": 7296, "head_dim": None})
    assert (config.num_heads, config.head_dim) == (128, 576)
    assert config_of(V3 | {"head_dim": 55}).head_dim == 576


@pytest.mark.parametrize("has_scale", [False, True])
def test_an_mtp_head_s_input_is_quantized_if_its_tensors_say_so(has_scale: bool) -> None:
    """DeepSeek-V3's is not, and its configuration does not say it."""
    config = config_of(PUBLISHED["DeepSeek-V3"] | {"num_hidden_layers": 4})
    stored = {"model.layers.4.eh_proj.weight"}
    stored |= {"model.layers.4.eh_proj.weight_scale_inv"} if has_scale else set()
    layout = MtpLayout.of(stored, 4).stored_as(stored)
    found = MtpHead(config, Decoder.skeleton(config), layout).destinations()
    assert {name for name in found if ".eh_proj." in name} == stored
    assert "model.layers.4.self_attn.q_b_proj.weight_scale_inv" in found


def test_weights_of_deepseek2_are_not_normalised() -> None:
    config: Any = config_of(PUBLISHED["DeepSeek-V2-Lite"])
    assert config.experts.rule == RoutingRule(6, is_normalised=False)
    with pytest.raises(CheckpointError, match="'norm_topk_prob' True is not supported"):
        config_of(PUBLISHED["DeepSeek-V2-Lite"] | {"norm_topk_prob": True})
