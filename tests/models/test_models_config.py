"""What config.json may say, and what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from random_models import CASES, VOCAB_SIZE

from specguide.errors import CheckpointError
from specguide.models import ModelConfig, config_of, read_config

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


def config(**settings: Any) -> ModelConfig:
    return config_of({**BASE, **settings})


def qwen(**settings: Any) -> ModelConfig:
    return config(architectures=["Qwen2ForCausalLM"], **settings)


def test_defaults_are_those_of_transformers() -> None:
    llama, mistral = config(), config(architectures=["MistralForCausalLM"])
    qwen2, qwen3 = qwen(), config(architectures=["Qwen3ForCausalLM"])
    assert (llama.num_kv_heads, llama.head_dim, llama.norm.eps, llama.rope.theta) == (
        4,
        16,
        1e-6,
        10_000.0,
    )
    assert [model.max_position_embeddings for model in (llama, mistral, qwen2, qwen3)] == [
        2048,
        131_072,
        32_768,
        32_768,
    ]
    assert (llama.sliding_windows, mistral.sliding_windows) == ((None,) * 4, (4096,) * 4)
    assert (qwen2.qkv_bias, qwen2.out_bias, qwen3.qkv_bias, llama.qkv_bias) == (
        True,
        False,
        False,
        False,
    )
    assert (qwen3.qk_norm, qwen3.head_dim, qwen2.qk_norm) == (True, 128, False)


@pytest.mark.parametrize("name", CASES)
def test_a_missing_epsilon_is_that_of_transformers(name: str) -> None:
    (config_class, model_class), settings = CASES[name]
    sizes = {**BASE, "vocab_size": VOCAB_SIZE, "num_hidden_layers": 3, "num_key_value_heads": 2}
    stated = config_class(**{**sizes, **settings}).to_dict()
    stated["architectures"] = [model_class.__name__]
    assert config_of(stated) == config_of({**stated, "rms_norm_eps": None})


def test_windows_by_layer() -> None:
    assert qwen(sliding_window=8, max_window_layers=2).sliding_windows == (None,) * 4
    assert qwen(sliding_window=8, max_window_layers=2, use_sliding_window=True).sliding_windows == (
        None,
        None,
        8,
        8,
    )
    types = ["sliding_attention", "full_attention"] * 2
    assert qwen(sliding_window=8, use_sliding_window=True, layer_types=types).sliding_windows == (
        8,
        None,
        8,
        None,
    )
    assert config(sliding_window=8).sliding_windows == (None,) * 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"]},
            r"'GPT2LMHeadModel' is unknown; known, with ForCausalLM behind each: Llama, Mistral, .*"
            r"; and with ForConditionalGeneration: Gemma3, ",
        ),
        ({"architectures": None}, "'none given' is unknown"),
        (
            {"quantization_config": {"quant_method": "quip"}},
            "'quantization_config' .*quip.* has no 'quant_method' that is supported",
        ),
        ({"hidden_act": "gelu"}, "'hidden_act' 'gelu' is not supported; supported: 'silu'"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}},
            "partial_rotary_factor 0.25",
        ),
        (
            {"rope_scaling": {"rope_type": "axial", "factor": 2}},
            "rope type 'axial' is not supported; known: default",
        ),
        (
            {"rope_scaling": {"type": "linear"}},
            "rope parameter 'factor' must be a number, found None",
        ),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1}},
            "'high_freq_factor'",
        ),
        ({"rope_scaling": {"rope_type": "default", "mrope_section": [1, 2]}}, "mrope_section"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "per layer type"),
        ({"rope_theta": "big"}, "'rope_theta' must be a number, found 'big'"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"num_hidden_layers": "4"}, "'num_hidden_layers' must be an integer ≥ 1, found '4'"),
        ({"num_attention_heads": 0}, "'num_attention_heads' must be an integer ≥ 1"),
        ({"num_key_value_heads": 3}, "must be a multiple of the key-value heads"),
        ({"head_dim": 15}, "and the dimension even"),
        ({"eos_token_id": [3, 100]}, "'eos_token_id' has 100, which is not a token id below 100"),
        ({"layer_types": ["full_attention"]}, "'layer_types' must be"),
        ({"layer_types": ["chunked_attention"] * 4}, "'layer_types' must be"),
        ({"layer_types": ["sliding_attention"] * 4}, "differ from layer to layer"),
        (
            {"architectures": ["Qwen2ForCausalLM"], "layer_types": ["sliding_attention"] * 4},
            "'sliding_window' is missing or not used",
        ),
    ],
)
def test_what_is_refused_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        config(**settings)


def test_generation_config_has_the_word_on_end_tokens(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**BASE, "eos_token_id": 7}))
    assert read_config(tmp_path).eos_token_ids == (7,)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    assert read_config(tmp_path).eos_token_ids == (5, 6)


def test_an_unreadable_folder_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no config\.json, which"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json: is not JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"config\.json: holds a list"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**BASE, "architectures": ["Mamba"]}))
    with pytest.raises(CheckpointError, match=r"config\.json: architecture 'Mamba' is unknown"):
        read_config(tmp_path)
