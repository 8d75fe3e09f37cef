"""What the config.json of a family may say that no other's may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specguide.errors import CheckpointError
from specguide.kernels.experts import RoutingRule
from specguide.layers.experts import ExpertsShape
from specguide.layers.rope import RopeConfig
from specguide.models import config_of
from specguide.models.gemma3 import Gemma3Config
from specguide.models.gemma4 import Gemma4Config
from specguide.models.qwen3_moe import Qwen3MoeConfig

BASE: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
}

GEMMA4 = {"hidden_size_per_layer_input": 0, "attention_k_eq_v": True}


def gemma3(**settings: Any) -> Gemma3Config:
    config = config_of({**BASE, "architectures": ["Gemma3ForCausalLM"], **settings})
    assert isinstance(config, Gemma3Config)
    return config


def gemma4(**settings: Any) -> Gemma4Config:
    config = config_of({**BASE, "architectures": ["Gemma4ForCausalLM"], **GEMMA4, **settings})
    assert isinstance(config, Gemma4Config)
    return config


def qwen3_moe(**settings: Any) -> Qwen3MoeConfig:
    config = config_of({**BASE, "architectures": ["Qwen3MoeForCausalLM"], **settings})
    assert isinstance(config, Qwen3MoeConfig)
    return config


def test_gemma2_defaults_are_those_of_transformers() -> None:
    config = config_of({**BASE, "architectures": ["Gemma2ForCausalLM"]})
    assert config.sliding_windows == (4096, None) * 3 + (4096,)
    shape = config.attention(1)
    assert (shape.head_dim, shape.scale, shape.softcap) == (256, 256**-0.5, 50.0)
    assert (config.logits_limit, config.embedding_scale) == (30.0, 8)
    none = dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"))
    config = config_of({**BASE, "architectures": ["Gemma2ForCausalLM"], **none})
    assert (config.attention(1).softcap, config.logits_limit) == (None, None)


def test_gemma3_defaults_are_those_of_transformers() -> None:
    config = gemma3()
    assert config.sliding_windows == (4096,) * 5 + (None, 4096)
    assert (config.rope.theta, config.local_rope.theta) == (1e6, 1e4)
    assert (config.head_dim, config.query_pre_attn_scalar) == (256, 256)
    assert config.tie_word_embeddings and config.embedding_scale == 8
    assert config.max_position_embeddings == 131_072


def test_gemma3_rope_in_both_spellings() -> None:
    """Linear scaling is of the layers that see all."""
    older = gemma3(
        rope_theta=5e5,
        rope_local_base_freq=2e4,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
        sliding_window_pattern=3,
    )
    newer = gemma3(
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 5e5, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
        },
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2
        + ["sliding_attention"],
    )
    assert older == newer
    assert older.attention(2).rope == RopeConfig(theta=5e5, rope_type="linear", factor=8.0)
    assert older.attention(3).rope == RopeConfig(theta=2e4)


def test_a_rope_of_no_layer_beside_those_of_the_two_kinds() -> None:
    """As transformers 5.10 writes it."""
    ropes = {
        "full_attention": {"rope_type": "linear", "rope_theta": 5e5, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    beside = {"rope_type": "default", "rope_theta": 1e4}
    assert gemma3(rope_parameters=ropes | beside) == gemma3(rope_parameters=ropes)
    with pytest.raises(CheckpointError, match="must have entries for full_attention and sliding"):
        gemma3(rope_parameters=ropes | {"chunked_attention": beside})


def test_gemma4_layers_in_both_spellings() -> None:
    """The last layer sees all tokens, whatever is said of it."""
    kinds = ["sliding_attention", "full_attention"] * 3 + ["sliding_attention"]
    others = {"num_key_value_heads": 2, "head_dim": 24, "layer_types": kinds}
    once = gemma4(**others, global_head_dim=96, num_global_key_value_heads=1)
    own = {"head_dim": 96, "num_key_value_heads": 1}
    by_layer = gemma4(**others, per_layer_config={str(layer): own for layer in (1, 3, 5, 6)})
    padded = gemma4(**others, per_layer_config={f"{layer:02}": own for layer in (1, 3, 5, 6)})
    assert once == by_layer == padded
    assert once.sliding_windows == (512, None) * 3 + (None,)
    shapes = [once.attention(layer) for layer in (0, 6)]
    assert [(it.num_kv_heads, it.head_dim) for it in shapes] == [(2, 24), (1, 96)]
    assert [it.are_keys_values for it in shapes] == [False, True]
    assert shapes[1].rope == RopeConfig(1e6, "proportional", share=0.25)
    assert {it.scale for it in shapes} == {1.0}


def test_gemma4_layers_that_read_the_keys_of_others() -> None:
    kinds = ["full_attention", "sliding_attention"] * 3 + ["full_attention"]
    config = gemma4(num_kv_shared_layers=4, layer_types=kinds)
    assert [config.key_source(layer) for layer in range(7)] == [0, 1, 2, 1, 2, 1, 2]


def test_gemma4_defaults_are_those_of_transformers() -> None:
    config = gemma4(attention_k_eq_v=False, num_global_key_value_heads=1)
    assert config.sliding_windows == (512,) * 5 + (None, None)
    assert [config.key_heads(layer) for layer in (0, 5)] == [(4, 256), (4, 512)]
    assert (config.logits_limit, config.max_position_embeddings) == (None, 131_072)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_kv_shared_layers": 2}, "leaves no layer of each kind whose keys"),
        (
            {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 99},
            "'vocab_size_per_layer_input' must be at least 100, found 99",
        ),
        ({"enable_moe_block": True}, "'moe_intermediate_size' is missing"),
        ({"use_bidirectional_attention": "all"}, "'use_bidirectional_attention' 'all'"),
        ({"per_layer_config": {"6": {"head_dim": 8}}}, "'per_layer_config' must state the same"),
        ({"per_layer_config": {"5": {"x": 8}, "6": {"x": 8}}}, "and nothing else, found"),
        ({"num_global_key_value_heads": 3}, "with 3 key-value heads in layers of full attention"),
    ],
)
def test_what_gemma4_refuses_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        gemma4(**settings)


@pytest.mark.parametrize(
    "scaling", [{}, {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}]
)
def test_olmo3_rope_in_three_spellings(scaling: dict[str, Any]) -> None:
    def olmo3(**settings: Any) -> Any:
        return config_of({**BASE, "architectures": ["Olmo3ForCausalLM"], **settings})

    plain = {"rope_type": "default", "rope_theta": 1e5}
    older = olmo3(rope_theta=1e5, rope_scaling=scaling or None)
    flat = olmo3(rope_parameters=plain | scaling)  # transformers 5.10
    by_kind = {"full_attention": plain | scaling, "sliding_attention": plain}
    assert older == flat == olmo3(rope_parameters=by_kind)
    assert older.attention(0).rope == RopeConfig(theta=1e5)
    assert older.attention(3).rope.factor == scaling.get("factor", 1.0)


def test_qwen3_moe_experts() -> None:
    shape = ExpertsShape(128, 768, RoutingRule(8, is_normalised=False))
    assert qwen3_moe().experts == shape
    assert qwen3_moe(num_experts=16, norm_topk_prob=True).experts == replace(
        shape, num_experts=16, rule=RoutingRule(8)
    )
    config = qwen3_moe(num_local_experts=16, decoder_sparse_step=2, mlp_only_layers=[3])
    assert config.has_experts == (False, True, False, False, False, True, False)
    assert (config.mlp_size, config.intermediate_size) == (128, 8 * 768)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_activation": "gelu"}, "'hidden_activation' 'gelu' is not supported"),
        ({"hidden_act": "silu"}, "'hidden_act' 'silu' is not supported"),
        ({"final_logit_softcapping": 30.0}, "'final_logit_softcapping' 30.0"),
        ({"attn_logit_softcapping": 50.0}, "'attn_logit_softcapping' 50.0"),
        ({"use_bidirectional_attention": True}, "'use_bidirectional_attention' True"),
        (
            {"rope_parameters": {"rope_type": "default"}},
            "must have entries for full_attention and sliding",
        ),
        ({"query_pre_attn_scalar": 0}, "'query_pre_attn_scalar' must be a finite number > 0"),
        ({"num_experts": 4}, "'num_experts' 4 is not supported"),
    ],
)
def test_what_gemma3_refuses_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        gemma3(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_experts": 4, "num_experts_per_tok": 5},
            "must be at most 4, the number of experts; found 5",
        ),
        ({"num_experts": 2**20}, "'num_experts' must be at most .*, found 1048576"),
        ({"mlp_only_layers": [True]}, "'mlp_only_layers' must be a list of integers"),
        ({"num_shared_experts": 1}, "'num_shared_experts' 1 is unknown and may change"),
        ({"query_pre_attn_scalar": 64}, "'query_pre_attn_scalar' 64 is not supported"),
    ],
)
def test_what_qwen3_moe_refuses_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        qwen3_moe(**settings)
