"""Fields of config.json: what changes the arithmetic is refused by name, what does not is no reason
to refuse."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

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

COMMON: dict[str, Any] = {
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
    "use_cache": True,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5,
}

PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama 2": COMMON
    | {
        "_name_or_path": "meta-llama/Llama-2-7b-hf",
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "max_position_embeddings": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 32,
        "pretraining_tp": 1,
        "rope_scaling": None,
        "vocab_size": 32000,
    },
    "Llama 3.2": COMMON
    | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
        "head_dim": 64,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "max_position_embeddings": 131072,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "pretraining_tp": 1,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "rope_type": "llama3",
            "original_max_position_embeddings": 8192,
        },
        "tie_word_embeddings": True,
        "vocab_size": 128256,
    },
    "a Llama of Unsloth": COMMON
    | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "bos_token_id": 128000,
        "eos_token_id": 128009,
        "pad_token_id": 128004,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rope_theta": 3580165449.0,
        "unsloth_version": "2024.9",
        "unsloth_fixed": True,
        "vocab_size": 128256,
        "_attn_implementation_autoset": True,
    },
    "SmolLM": COMMON
    | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "is_llama_config": True,
        "max_position_embeddings": 8192,
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "num_key_value_heads": 3,
        "pretraining_tp": 1,
        "rope_interleaved": False,
        "rope_theta": 100000,
        "tie_word_embeddings": True,
        "vocab_size": 49152,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
    },
    "Mistral 0.1": COMMON
    | {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rope_theta": 10000.0,
        "sliding_window": 4096,
        "vocab_size": 32000,
    },
    "Mistral Nemo": COMMON
    | {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 14336,
        "max_position_embeddings": 131072,
        "num_attention_heads": 32,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "vocab_size": 131072,
    },
    "Qwen2": COMMON
    | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_position_embeddings": 32768,
        "max_window_layers": 28,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "rope_theta": 1000000.0,
        "sliding_window": 131072,
        "use_sliding_window": False,
        "vocab_size": 152064,
    },
    "Qwen2.5 with YaRN": COMMON
    | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "bos_token_id": 151643,
        "eos_token_id": 151643,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "max_position_embeddings": 131072,
        "max_window_layers": 21,
        "num_attention_heads": 12,
        "num_hidden_layers": 28,
        "num_key_value_heads": 2,
        "rope_theta": 10000,
        "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"},
        "sliding_window": 4096,
        "use_mrope": False,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen3": COMMON
    | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "max_position_embeddings": 40960,
        "max_window_layers": 36,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "MiMo": COMMON
    | {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "mimo",
        "attention_bias": True,
        "auto_map": {"AutoConfig": "configuration_mimo.MiMoConfig"},
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "max_position_embeddings": 32768,
        "max_window_layers": 36,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "num_nextn_predict_layers": 1,
        "rope_scaling": None,
        "rope_theta": 640000,
        "sliding_window": 32768,
        "use_mrope": False,
        "use_sliding_window": False,
        "vocab_size": 151680,
    },
}

PUBLISHED |= {
    "Qwen3-30B-A3B": COMMON
    | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "bos_token_id": 151643,
        "decoder_sparse_step": 1,
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "max_position_embeddings": 40960,
        "max_window_layers": 48,
        "mlp_only_layers": [],
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "output_router_logits": False,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "router_aux_loss_coef": 0.001,
        "sliding_window": None,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "OLMoE 1B 7B": COMMON
    | {
        "architectures": ["OlmoeForCausalLM"],
        "model_type": "olmoe",
        "attention_bias": False,
        "clip_qkv": None,
        "eos_token_id": 50279,
        "hidden_size": 2048,
        "intermediate_size": 1024,
        "max_position_embeddings": 4096,
        "norm_topk_prob": False,
        "num_attention_heads": 16,
        "num_experts": 64,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 16,
        "num_key_value_heads": 16,
        "output_router_logits": False,
        "pad_token_id": 1,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "router_aux_loss_coef": 0.01,
        "vocab_size": 50304,
    },
    "Mixtral 8x7B": COMMON
    | {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "output_router_logits": False,
        "rms_norm_eps": 1e-05,
        "rope_theta": 1000000.0,
        "router_aux_loss_coef": 0.02,
        "sliding_window": None,
        "vocab_size": 32000,
    },
    "gpt-oss 20B": COMMON
    | {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "attention_bias": True,
        "eos_token_id": 200002,
        "experts_per_token": 4,
        "head_dim": 64,
        "hidden_size": 2880,
        "initial_context_length": 4096,
        "intermediate_size": 2880,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "max_position_embeddings": 131072,
        "num_attention_heads": 64,
        "num_experts_per_tok": 4,
        "num_hidden_layers": 24,
        "num_key_value_heads": 8,
        "num_local_experts": 32,
        "output_router_logits": False,
        "pad_token_id": 199999,
        "quantization_config": {
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
            "quant_method": "mxfp4",
        },
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "rope_type": "yarn",
            "truncate": False,
        },
        "rope_theta": 150000,
        "router_aux_loss_coef": 0.9,
        "sliding_window": 128,
        "swiglu_limit": 7.0,
        "tie_word_embeddings": False,
        "vocab_size": 201088,
    },
    "Phi-4-mini": COMMON
    | {
        "_name_or_path": "Phi-4-mini-instruct",
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "attention_bias": False,
        "bos_token_id": 199999,
        "embd_pdrop": 0.0,
        "eos_token_id": 199999,
        "full_attn_mod": 1,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "interpolate_factor": 1,
        "lm_head_bias": False,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 24,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "original_max_position_embeddings": 4096,
        "pad_token_id": 199999,
        "partial_rotary_factor": 0.75,
        "resid_pdrop": 0.0,
        "rope_scaling": {"type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48},
        "rope_theta": 10000.0,
        "sliding_window": 262144,
        "tie_word_embeddings": True,
        "vocab_size": 200064,
    },
    "Devstral 2": COMMON
    | {
        "architectures": ["Ministral3ForCausalLM"],
        "model_type": "ministral3",
        "bos_token_id": 1,
        "dtype": "bfloat16",
        "eos_token_id": 2,
        "head_dim": 128,
        "hidden_size": 12288,
        "intermediate_size": 28672,
        "max_position_embeddings": 262144,
        "num_attention_heads": 96,
        "num_hidden_layers": 88,
        "num_key_value_heads": 8,
        "pad_token_id": 11,
        "quantization_config": {
            "activation_scheme": "static",
            "dequantize": False,
            "modules_to_not_convert": ["model.vision_tower", "lm_head"],
            "quant_method": "fp8",
            "weight_block_size": None,
        },
        "rope_parameters": {
            "beta_fast": 4.0,
            "beta_slow": 1.0,
            "factor": 64.0,
            "llama_4_scaling_beta": 0.0,
            "mscale": 1.0,
            "mscale_all_dim": 0.0,
            "original_max_position_embeddings": 4096,
            "rope_theta": 1000000.0,
            "rope_type": "yarn",
            "type": "yarn",
        },
        "sliding_window": None,
        "vocab_size": 131072,
    },
    "Gemma 3 1B": {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": 2,
        "cache_implementation": "hybrid",
        "eos_token_id": [1, 106],
        "final_logit_softcapping": None,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 1152,
        "initializer_range": 0.02,
        "intermediate_size": 6912,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4,
        "num_hidden_layers": 26,
        "num_key_value_heads": 1,
        "pad_token_id": 0,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.50.0.dev0",
        "use_cache": True,
        "vocab_size": 262144,
    },
}

PUBLISHED["Falcon3"] = PUBLISHED["Llama 3.2"] | {"activation": "swiglu", "rope_scaling": None}
PUBLISHED["Qwen3-Coder-30B-A3B"] = PUBLISHED["Qwen3-30B-A3B"] | {
    "intermediate_size": 5472,
    "max_position_embeddings": 262144,
    "max_window_layers": 28,
    "qkv_bias": False,
    "rope_theta": 10000000,
    "shared_expert_intermediate_size": 0,
    "use_qk_norm": True,
}

HEAD: dict[str, Any] = COMMON | {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "num_attention_heads": 32,
    "num_hidden_layers": 1,
    "num_key_value_heads": 8,
    "rope_theta": 1000000,
    "vocab_size": 151936,
    "draft_vocab_size": 32000,
}

PUBLISHED_HEADS: dict[str, dict[str, Any]] = {
    "EAGLE": HEAD | {"pad_token_id": 0, "torch_dtype": "float16"},
    "SpecForge": HEAD
    | {
        "max_window_layers": 36,
        "rope_scaling": None,
        "sliding_window": None,
        "use_sliding_window": False,
    },
    "SpecForge, of a Qwen2.5-VL": HEAD
    | {
        "max_window_layers": 70,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "sliding_window": 32768,
        "use_sliding_window": False,
    },
    "SpecForge, of a Qwen3-VL": HEAD
    | {
        "rope_scaling": {
            "rope_type": "default",
            "mrope_section": [24, 20, 20],
            "mrope_interleaved": True,
        },
    },
    "AngelSlim": HEAD
    | {
        "architectures": ["Eagle3LlamaForCausalLM"],
        "target_model_type": "qwen2.5",
        "max_window_layers": 28,
        "sliding_window": 131072,
        "use_mrope": False,
        "use_sliding_window": False,
    },
    "AngelSlim, of a Qwen3-VL": HEAD
    | {
        "architectures": ["Eagle3LlamaForCausalLM"],
        "target_model_type": "qwen3_vl",
        "modal_type": "VLM",
        "tie_word_embeddings": True,
        "vision_start_token_id": 151652,
    },
    "AngelSlim, of a mixture of experts": HEAD
    | {
        "architectures": ["Eagle3LlamaForCausalLM"],
        "target_model_type": "qwen3_moe",
        "decoder_sparse_step": 1,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
    },
    "speculators": {
        "architectures": ["Eagle3Speculator"],
        "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"},
        "draft_vocab_size": 32000,
        "norm_before_residual": True,
        "has_no_defaults_at_init": False,
        "speculators_config": {"algorithm": "eagle3"},
        "speculators_model_type": "eagle3",
        "embed_requires_grad": False,
        "speculators_version": "0.3.0",
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.57.0",
        "fc_norm": False,
        "norm_before_fc": False,
        "eagle_aux_hidden_state_layer_ids": None,
        "transformer_layer_config": {
            name: value for name, value in HEAD.items() if name != "draft_vocab_size"
        },
    },
    "ModelOpt": HEAD
    | {
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [1, 17, 32],
            "use_aux_hidden_state": True,
            "next_layer_regular": True,
            "use_input_layernorm_in_first_layer": True,
            "use_last_layernorm": True,
            "use_mtp_layernorm": False,
            "parallel_draft_step": 1,
            "parallel_draft_heads_num_layers": 1,
        }
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_are_read_without_a_word(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert config_of(PUBLISHED[name]).num_layers == PUBLISHED[name]["num_hidden_layers"]


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
        {"rope_type": "default", "mrope_section": [16, 24, 24]},
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
        match="'use_sliding_window' with 'sliding_window' 8: this architecture has no",
    ):
        config_of({**BASE, "sliding_window": 8, "use_sliding_window": True})
