"""Owns ModelConfig: what a Hugging Face folder's config.json says about a dense decoder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.json_fields import (
    flag,
    naming,
    positive_int,
    positive_number,
    read_json,
    shown,
    token_ids,
)
from specguide.layers.rope import RopeConfig
from specguide.models.config_fields import check_fields


@dataclass(frozen=True)
class Family:
    """What the architecture's name alone decides, as `transformers` has it.

    qkv_bias, out_bias: biases of the attention; None: config.json's `attention_bias`
    mlp_bias:           bias of the MLP; None: config.json's `mlp_bias`
    qk_norm:            each query and key head is normalised
    head_dim:           where config.json states none; None: hidden_size / num_attention_heads
    max_position_embeddings, sliding_window: where config.json states none
    windowed:           "never", "always" where a window is stated, or per layer "by_flag"
                        (`use_sliding_window`)
    """

    qkv_bias: bool | None = False
    out_bias: bool | None = False
    mlp_bias: bool | None = False
    qk_norm: bool = False
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    sliding_window: int | None = None
    windowed: str = "never"


QWEN2 = Family(
    qkv_bias=True, max_position_embeddings=32_768, sliding_window=4096, windowed="by_flag"
)

FAMILIES: dict[str, Family] = {
    "LlamaForCausalLM": Family(qkv_bias=None, out_bias=None, mlp_bias=None),
    "MistralForCausalLM": Family(
        max_position_embeddings=131_072, sliding_window=4096, windowed="always"
    ),
    "Qwen2ForCausalLM": QWEN2,
    "Qwen3ForCausalLM": Family(
        qkv_bias=None,
        out_bias=None,
        qk_norm=True,
        head_dim=128,
        max_position_embeddings=32_768,
        sliding_window=4096,
        windowed="by_flag",
    ),
    "MiMoForCausalLM": QWEN2,
}

# More than any model has. What lies below is compared with the shapes in the files before memory is
# taken.
LARGEST = {
    "vocab_size": 2**26,
    "hidden_size": 2**22,
    "intermediate_size": 2**22,
    "num_hidden_layers": 2**10,
    "num_attention_heads": 2**14,
    "num_key_value_heads": 2**14,
    "head_dim": 2**14,
    "max_position_embeddings": 2**24,
}


@dataclass(frozen=True)
class ModelConfig:
    """A dense decoder.

    architecture:            key of FAMILIES
    sliding_windows:         per layer, tokens, or None where the layer sees all before it
    max_position_embeddings: longest context, tokens
    eos_token_ids:           from generation_config.json, else config.json; may be empty
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    rope: RopeConfig
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tie_word_embeddings: bool
    sliding_windows: tuple[int | None, ...]
    max_position_embeddings: int
    eos_token_ids: tuple[int, ...] = ()

    @classmethod
    def from_folder(cls, folder: str | Path) -> ModelConfig:
        """Read config.json, and generation_config.json where there is one.

        Raises CheckpointError when they are unreadable or ask for what is not implemented; the
        message says what.
        """
        path, generation_path = (
            Path(folder) / "config.json",
            Path(folder) / "generation_config.json",
        )
        config = read_json(path)
        generation = read_json(generation_path) if generation_path.exists() else {}
        has_the_word = generation.get("eos_token_id") is not None
        with naming(path):
            model = cls.from_hf({**config, "eos_token_id": None} if has_the_word else config)
        with naming(generation_path):
            eos = token_ids(generation, "eos_token_id", model.vocab_size)
        return model if eos is None else replace(model, eos_token_ids=eos)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], *, known: Collection[str] = ()) -> ModelConfig:
        """From the contents of config.json; raises CheckpointError.

        known: fields that the caller reads itself
        """
        architecture = _architecture(config)
        family = FAMILIES[architecture]
        check_fields(config, known=known)
        hidden_size, num_heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
        num_layers, vocab_size = _size(config, "num_hidden_layers"), _size(config, "vocab_size")
        max_positions = _size(config, "max_position_embeddings", family.max_position_embeddings)
        head_dim = _size(config, "head_dim", family.head_dim or hidden_size // num_heads)
        num_kv_heads = _size(config, "num_key_value_heads", num_heads)
        if num_heads % num_kv_heads or head_dim % 2:
            raise CheckpointError(
                f"{num_heads} heads of dimension {head_dim} with {num_kv_heads} key-value heads: "
                "the "
                "key-value heads must divide the heads, and the dimension must be even"
            )
        return cls(
            architecture=architecture,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=_size(config, "intermediate_size"),
            num_layers=num_layers,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            norm_eps=positive_number(config, "rms_norm_eps", 1e-6, at_most=1.0),
            rope=RopeConfig.from_hf(config, max_positions),
            qk_norm=family.qk_norm,
            qkv_bias=_stated(family.qkv_bias, config, "attention_bias"),
            out_bias=_stated(family.out_bias, config, "attention_bias"),
            mlp_bias=_stated(family.mlp_bias, config, "mlp_bias"),
            tie_word_embeddings=flag(config, "tie_word_embeddings"),
            sliding_windows=_sliding_windows(config, family, num_layers),
            max_position_embeddings=max_positions,
            eos_token_ids=token_ids(config, "eos_token_id", vocab_size) or (),
        )


def _size(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    return positive_int(config, name, default, at_most=LARGEST[name])


def _architecture(config: Mapping[str, Any]) -> str:
    architectures = config.get("architectures") or []
    if not isinstance(architectures, list) or not all(
        isinstance(name, str) for name in architectures
    ):
        raise CheckpointError(
            f"'architectures' must be a list of names, found {shown(architectures)}"
        )
    known = next((name for name in architectures if name in FAMILIES), None)
    if known is None:
        found = ", ".join(architectures) or "none stated"
        raise CheckpointError(
            f"architecture {shown(found)} is unknown; known: {', '.join(FAMILIES)}"
        )
    return known


def _stated(fixed: bool | None, config: Mapping[str, Any], name: str) -> bool:
    stated = flag(config, name)
    return stated if fixed is None else fixed


def _sliding_windows(
    config: Mapping[str, Any], family: Family, num_layers: int
) -> tuple[int | None, ...]:
    """The window of each layer, from `sliding_window`, `use_sliding_window`, `max_window_layers`,
    `layer_types`."""
    layer_types = read_layer_types(config, num_layers)
    window = config.get("sliding_window", family.sliding_window)
    is_used = flag(config, "use_sliding_window")
    if family.windowed == "by_flag" and not is_used:
        window = None
    if window is not None:
        window = positive_int({"sliding_window": window}, "sliding_window")
    if family.windowed == "never" and window is not None and is_used:
        raise CheckpointError(
            f"'use_sliding_window' with 'sliding_window' {window}: this architecture has no window"
        )
    if family.windowed != "by_flag":
        window = window if family.windowed == "always" else None
        uniform = "full_attention" if window is None else "sliding_attention"
        if layer_types is not None and set(layer_types) != {uniform}:
            raise CheckpointError(
                "'layer_types' that differ from layer to layer are not supported here"
            )
        return (window,) * num_layers
    if layer_types is None:
        first = (
            0
            if config.get("max_window_layers") == 0
            else positive_int(config, "max_window_layers", 28)
        )
        layer_types = [
            "sliding_attention" if layer >= first else "full_attention"
            for layer in range(num_layers)
        ]
    elif window is None and "sliding_attention" in layer_types:
        raise CheckpointError("'layer_types' asks for 'sliding_attention', but no window is in use")
    return tuple(window if kind == "sliding_attention" else None for kind in layer_types)


def read_layer_types(config: Mapping[str, Any], num_layers: int | None = None) -> list[str] | None:
    """`layer_types`, each "full_attention" or "sliding_attention"; None where it is missing. Raises
    CheckpointError.

    num_layers: how many there must be; None: one or more
    """
    kinds = config.get("layer_types")
    if kinds is None:
        return None
    if (
        not isinstance(kinds, list)
        or not kinds
        or num_layers not in (None, len(kinds))
        or not all(kind in ("full_attention", "sliding_attention") for kind in kinds)
    ):
        layers = "each layer" if num_layers is None else f"each of the {num_layers} layers"
        raise CheckpointError(
            f"'layer_types' must be 'full_attention' or 'sliding_attention' for {layers}, found "
            f"{shown(kinds)}"
        )
    return kinds
