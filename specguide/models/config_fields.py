"""Owns how each field of a config.json is treated: read, ignored, required to be neutral, or, if it
is unknown, refused or warned of.

A model that computes something other than its config.json says produces wrong text without any
error. So each field is treated in one of these ways:

- What is implemented is read: READ by all families, and what a Family names by that family.
- What has no part in a forward pass (training, token ids, generation, bookkeeping) is ignored.
- What changes the arithmetic of some published model must have no effect here: it must be absent,
  or have one of the values in NEUTRAL.
- An unknown field is ignored if it is null, false or empty. Otherwise its name decides: if it
  sounds like arithmetic, the field is refused; any other field causes a warning.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import shown


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READ = _names("""
    architectures vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads
    num_key_value_heads head_dim rms_norm_eps rope_theta rope_scaling rope_parameters
    partial_rotary_factor original_max_position_embeddings max_position_embeddings attention_bias
    mlp_bias tie_word_embeddings sliding_window use_sliding_window max_window_layers layer_types
    bos_token_id eos_token_id num_nextn_predict_layers quantization_config
""")


def _all(values: Collection[Any], text: str) -> dict[str, Collection[Any]]:
    """The same values for each of the names in a text."""
    return dict.fromkeys(_names(text), values)


_SILU = (None, "silu", "swish")
_OFF = (None, False)
_ON = (None, True)
_ONE = (None, 1)
_NONE = (None, False, 0)

NEUTRAL: dict[str, Collection[Any]] = {
    # quantized weights in formats that are not read
    **_all((None,), "compression_config quantization quant_config"),
    # activations and norms
    **_all(_SILU, "hidden_act hidden_activation activation_function mlp_hidden_act"),
    "activation": (*_SILU, "swiglu"),
    "norm_type": (None, "rms", "rmsnorm", "rms_norm"),
    **_all(
        _OFF,
        "use_post_norm use_sandwich_norm apply_residual_connection_post_layernorm gated_norm",
    ),
    "do_layer_norm_before": _ON,
    # factors on embeddings, residual, attention and logits
    **_all(
        _ONE,
        """
        embedding_multiplier residual_multiplier logits_scaling logit_scale scale_emb
        embedding_scale lm_head_multiplier key_multiplier attention_in_multiplier
        attention_out_multiplier attention_value_scale rope_ratio rotary_pct
        """,
    ),
    **_all(
        _OFF,
        """
        scale_embedding mup_enabled use_mup normalize_embedding rescale_embeddings
        scale_attn_by_inverse_layer_idx
        """,
    ),
    **_all(
        (None,),
        """
        attention_multiplier query_pre_attn_scalar attn_scale scale_depth dim_model_base
        mlp_multipliers logits_mup_width_multiplier
        """,
    ),
    "scale_attn_weights": _ON,
    # limits on values
    **_all(
        _NONE,
        """
        attn_logit_softcapping final_logit_softcapping logits_soft_cap output_logit_soft_cap
        clip_qkv qk_l2_clip_threshold swiglu_limit
        """,
    ),
    # which tokens attend to which
    **_all(_ON, "is_causal causal"),
    **_all(
        _NONE,
        """
        dual_chunk_attention_config sparse_attention_config attention_chunk_size
        attention_window_size sliding_window_pattern local_attention attn_config
        num_kv_shared_layers
        """,
    ),
    **_all(
        _OFF,
        """
        use_bidirectional_attention attention_k_eq_v prefix_lm attn_temperature_tuning use_cla
        add_cross_attention is_encoder_decoder attention_sink use_sinks use_logn_attn
        use_dynamic_ntk
        """,
    ),
    "pruned_heads": (None, {}),
    # positions
    **_all(
        _OFF,
        "alibi use_mrope rope_interleaved rope_interleave rope_traditional learned_pos_emb",
    ),
    "no_rope_layers": (None, []),
    "no_rope_layer_interval": _NONE,
    "position_embedding_type": (None, "rope", "rotary"),
    **_all(_ON, "use_rotary_pos_emb use_rope"),
    # layers of other kinds
    **_all(
        _OFF,
        """
        use_qk_norm qk_layernorm qk_norm use_parallel_residual parallel_attn is_moe use_bias
        lm_head_bias add_bias_linear
        """,
    ),
    **_all(
        _NONE,
        """
        num_experts num_local_experts n_routed_experts shared_expert_intermediate_size
        kv_lora_rank q_lora_rank
        """,
    ),
    **_all((None,), "text_config vision_config audio_config dflash_config"),
}

# bookkeeping, implementations, training, lengths that other code reads, tasks, generation
HARMLESS = _names("""
    model_type auto_map transformers_version torch_dtype dtype torchscript use_bfloat16
    tokenizer_class transformers.js_config is_llama_config _name_or_path _commit_hash _auto_class
    unsloth_version unsloth_fixed cache_implementation use_cache pretraining_tp
    chunk_size_feed_forward slow_but_exact init_device num_logits_to_keep
    keys_to_ignore_at_inference return_dict return_dict_in_generate output_hidden_states
    output_attentions output_scores output_router_logits _attn_implementation
    _attn_implementation_autoset _attn_implementation_internal _flash_attn_2_enabled
    attn_implementation attention_implementation use_flash_attn use_flash_attention
    use_flash_attention_2 flash_attn attention_softmax_in_fp32 scale_attention_softmax_in_fp32
    reorder_and_upcast_attn fp32_residual_connection gradient_checkpointing recompute_granularity
    sequence_parallel seq_aux seed hash_seed neftune_noise_alpha max_sequence_length max_seq_len
    max_seq_length seq_length model_max_length tokenizer_model_max_length tokenizer_padding_side
    task_specific_params prefix id2label label2id num_labels problem_type finetuning_task
    add_classification_head classifier_activation summary_type summary_use_proj is_decoder
    tie_encoder_decoder cross_attention_hidden_size temperature top_k top_p typical_p
    repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    bad_words_ids num_return_sequences remove_invalid_values max_length min_length do_sample
    early_stopping num_beams num_beam_groups diversity_penalty exponential_decay_length_penalty
    suppress_tokens begin_suppress_tokens
""")

# what has an effect only in training, and ids of tokens
_HARMLESS_NAMES = re.compile(
    r".*(dropout|_pdrop|layerdrop|_drop_rate).*|(initializer|init)_.*|.*_init_(std|range)"
    r"|.*loss.*|.*jitter_noise|.*token_(ids?|index)"
)

# Words that model authors use for arithmetic, found anywhere in a name, or at the start of one of
# its words.
_ARITHMETIC_NAMES = re.compile(
    "attn|attention|norm|scal|softcap|soft_cap|window|expert|quant"
    "|(^|[_.-])(rope|rotary|posit|eps|multipl|factor|alpha|beta|theta|cap|clip|clamp|limit|bias|act($|_|ivat)|residual"
    "|spars|moe|rout|mamba|ssm|conv|recurr|alibi|mup|sink|gat(e|ing)|chunk|layer|head|mlp|ffn|feed_forward|emb|logit|kv"
    "|lora|rank|dim|hidden|latent|compress|mask|stride|pattern|config)"
)


def check_fields(
    config: Mapping[str, Any],
    *,
    known: Collection[str] = (),
    neutral: Mapping[str, Collection[Any]] | None = None,
    strict: bool = False,
) -> None:
    """Raise CheckpointError for the first field that asks for more than is implemented; warn of
    unknown fields.

    known:   names that the caller reads, besides READ
    neutral: values without effect, where they differ from NEUTRAL
    strict:  raise for unknown fields, too
    """
    values = {**NEUTRAL, **(neutral or {})}
    for name, value in config.items():
        if name in READ or name in known or name in HARMLESS or _HARMLESS_NAMES.fullmatch(name):
            continue
        if name in values:
            _check_neutral(name, value, values[name])
        else:
            _check_unknown(name, value, strict=strict)


def check_neutral(config: Mapping[str, Any], neutral: Mapping[str, Collection[Any]]) -> None:
    """Raise CheckpointError for the first field of `neutral` whose value is not one of those
    without effect."""
    for name, values in neutral.items():
        _check_neutral(name, config.get(name), values)


def _check_neutral(name: str, value: Any, neutral: Collection[Any]) -> None:
    if not any(
        value == one and isinstance(value, bool) == isinstance(one, bool) for one in neutral
    ):
        supported = [one for one in neutral if one is not None]
        only = f"; supported: {', '.join(map(repr, supported))}" if supported else ""
        raise CheckpointError(f"{name!r} {shown(value)} is not supported{only}")


def _check_unknown(name: str, value: Any, *, strict: bool) -> None:
    if value is None or value is False or value in ("", [], {}):
        return
    if strict or _ARITHMETIC_NAMES.search(name.lower()):
        raise CheckpointError(
            f"{shown(name)} {shown(value)} is unknown and may change what the model computes; "
            "where you are sure that it does not, take it out of the file"
        )
    warnings.warn(
        f"config.json: {shown(name)} {shown(value)} is unknown and has no effect",
        UserWarning,
        stacklevel=2,
    )
