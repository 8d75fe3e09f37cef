"""Fields of config.json: what changes the arithmetic is refused by name, what does not is no reason
to refuse."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from published_configs import HEAD, PUBLISHED, PUBLISHED_HEADS

from specguide.errors import CheckpointError
from specguide.models import Eagle3Config, config_of

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_are_read_without_a_word(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert config_of(PUBLISHED[name]).num_layers == PUBLISHED[name]["num_hidden_layers"]


def test_weights_of_experts_that_are_not_normalised_are_refused_where_transformers_has_none() -> (
    None
):
    stated = PUBLISHED["Qwen3.5-MoE"]
    assert config_of(stated | {"norm_topk_prob": True}) == config_of(stated)
    with pytest.raises(CheckpointError, match="'norm_topk_prob' False is not supported"):
        config_of(stated | {"norm_topk_prob": False})


@pytest.mark.parametrize("name", PUBLISHED_HEADS)
def test_published_heads_are_read_without_a_word(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = Eagle3Config.from_hf(PUBLISHED_HEADS[name])
    assert (config.draft_vocab_size, config.layer.sliding_windows) == (32000, (None,))


ARITHMETIC: list[tuple[str, list[Any], list[Any]]] = [
    ("dual_chunk_attention_config", [{"chunk_size": 262144}], [None]),
    ("logit_scale", [0.0625, "x"], [None, 1, 1.0]),
    ("embedding_multiplier", [12.0], [1.0]),
    ("residual_multiplier", [0.22], [1.0, None]),
    ("logits_scaling", [8.0, True], [1]),
    ("attention_multiplier", [0.0156], [None]),
    ("query_pre_attn_scalar", [256], [None]),
    ("attn_logit_softcapping", [50.0], [None, 0, False]),
    ("final_logit_softcapping", [30.0], [None, 0.0]),
    ("clip_qkv", [8.0], [None]),
    ("partial_rotary_factor", [0.5, "x", {}], [1.0, None]),
    ("use_sliding_window", [3, "true"], [False, None]),
    ("attention_bias", ["false", 1], [True, False, None]),
    ("mlp_bias", [0], [False, None]),
    ("hidden_act", ["gelu", 3], ["silu", "swish", None]),
    ("quantization_config", [{"quant_method": "int2"}, []], [None]),
    ("rope_interleaved", [True], [False]),
    ("num_local_experts", [8], [0, None]),
    ("use_qk_norm", [True], [False]),
    ("text_config", [{"hidden_size": 64}], [None]),
    # names that no published model has
    ("value_rescaling", [0.5, 1], [None, False]),
    ("attn_temperature", [1.3], [None]),
    ("residual_mixer", ["hyper"], [{}, "", []]),
    ("rope_bend", [2.0], [None]),
]


@pytest.mark.parametrize(
    ("name", "refused", "taken"), ARITHMETIC, ids=[name for name, *_ in ARITHMETIC]
)
def test_what_changes_the_arithmetic_is_refused_by_name(
    name: str, refused: list[Any], taken: list[Any]
) -> None:
    for read, base in ((config_of, BASE), (Eagle3Config.from_hf, HEAD)):
        for value in refused:
            with pytest.raises(CheckpointError, match=name):
                read({**base, name: value})
        for value in taken:
            read({**base, name: value})


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "dynamic", "factor": 2.0, "alpha": 1000.0},
        {"rope_type": "yarn", "factor": 4.0, "attn_bend": 2.0},
        {"rope_type": "default", "mrope_section": [16, 24]},
        {"rope_type": "default", "mrope_section": [16, 24, -1]},
        {"rope_type": "linear", "factor": 0},
        {"rope_type": "linear", "factor": float("inf")},
        {"rope_type": "default", "rope_theta": 1.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0},
        "linear",
        3,
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 0},
        {"rope_type": ["linear"], "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0},
        {"rope_type": "yarn", "factor": 4.0, "truncate": "no"},
    ],
)
def test_rope_parameters_that_are_not_implemented_or_wrong(rope: Any) -> None:
    with pytest.raises(CheckpointError, match=r"rope|original_max_position_embeddings|truncate"):
        config_of({**BASE, "rope_scaling": rope})


@pytest.mark.parametrize(
    "settings",
    [
        {"attention_dropout": 0.1},
        {"image_token_id": 7},
        {"hidden_dropout_prob": 0.1},
        {"router_aux_loss_coef": 0.01},
        {"temperature": 0.6},
        {"max_sequence_length": 4096},
        {"init_std": 0.02},
        {"some_new_feature": None},
        {"some_attention_feature": False},
        {"layers_of_tomorrow": []},
    ],
)
def test_fields_without_a_part_in_a_forward_pass(settings: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config_of({**BASE, **settings})


def test_what_nobody_has_heard_of_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="'favourite_colour' 'blue' is unknown and has no effect"):
        config_of({**BASE, "favourite_colour": "blue"})


def test_a_window_that_the_architecture_does_not_have() -> None:
    """The window of a Llama is ignored, as in transformers, unless a flag insists on it."""
    assert config_of({**BASE, "sliding_window": 8}).sliding_windows == (None,) * 4
    with pytest.raises(
        CheckpointError,
        match="'use_sliding_window' with 'sliding_window' 8 is not supported: this",
    ):
        config_of({**BASE, "sliding_window": 8, "use_sliding_window": True})
