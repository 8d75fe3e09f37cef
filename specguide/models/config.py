"""Owns ModelConfig: what a Hugging Face folder's config.json says about a dense decoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.layers.rope import RopeConfig


@dataclass(frozen=True)
class Family:
    """What the architecture's name alone decides, as `transformers` has it.

    qkv_bias, out_bias: biases of the attention; None: config.json's `attention_bias`
    mlp_bias:           bias of the MLP; None: config.json's `mlp_bias`
    qk_norm:            each query and key head is normalised
    head_dim:           where config.json states none; None: hidden_size / num_attention_heads
    max_position_embeddings, sliding_window: where config.json states none
    windowed:           "never", "always" where a window is stated, or per layer "by_flag" (`use_sliding_window`)
    """

    qkv_bias: bool | None = False
    out_bias: bool | None = False
    mlp_bias: bool | None = False
    qk_norm: bool = False
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    sliding_window: int | None = None
    windowed: str = "never"


QWEN2 = Family(qkv_bias=True, max_position_embeddings=32_768, sliding_window=4096, windowed="by_flag")

FAMILIES: dict[str, Family] = {
    "LlamaForCausalLM": Family(qkv_bias=None, out_bias=None, mlp_bias=None),
    "MistralForCausalLM": Family(max_position_embeddings=131_072, sliding_window=4096, windowed="always"),
    "Qwen2ForCausalLM": QWEN2,
    "Qwen3ForCausalLM": Family(qkv_bias=None, out_bias=None, qk_norm=True, head_dim=128,
                               max_position_embeddings=32_768, sliding_window=4096, windowed="by_flag"),
    "MiMoForCausalLM": QWEN2,
}

# Settings that change the arithmetic and are not implemented; each must be absent, or one of these values.
UNSUPPORTED_UNLESS: dict[str, tuple[Any, ...]] = {
    "quantization_config": (None,),
    "compression_config": (None,),
    "hidden_act": (None, "silu", "swish"),
    "use_mrope": (None, False),
    "no_rope_layers": (None, []),
    "is_causal": (None, True),
    "attention_chunk_size": (None,),
    "logits_scaling": (None, 1, 1.0),
    "final_logit_softcapping": (None,),
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
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    @classmethod
    def from_folder(cls, folder: str | Path) -> ModelConfig:
        """Read config.json, and generation_config.json where there is one.

        Raises CheckpointError when they are unreadable or ask for what is not implemented; the message says what.
        """
        config = read_json(Path(folder) / "config.json")
        generation_file = Path(folder) / "generation_config.json"
        generation = read_json(generation_file) if generation_file.is_file() else {}
        try:
            return cls.from_hf(config, generation)
        except CheckpointError as error:
            raise CheckpointError(f"{Path(folder) / 'config.json'}: {error}") from None

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> ModelConfig:
        """From the contents of config.json and generation_config.json; raises CheckpointError."""
        architecture = _architecture(config)
        family = FAMILIES[architecture]
        refuse_unsupported(config)
        hidden_size, num_heads = positive_int(config, "hidden_size"), positive_int(config, "num_attention_heads")
        num_layers = positive_int(config, "num_hidden_layers")
        max_positions = positive_int(config, "max_position_embeddings", family.max_position_embeddings)
        head_dim = positive_int(config, "head_dim", family.head_dim or hidden_size // num_heads)
        num_kv_heads = positive_int(config, "num_key_value_heads", num_heads)
        if num_heads % num_kv_heads or head_dim % 2:
            raise CheckpointError(f"{num_heads} heads of dimension {head_dim} with {num_kv_heads} key-value heads: the "
                                  "key-value heads must divide the heads, and the dimension must be even")
        eos = (generation or {}).get("eos_token_id")
        vocab_size = positive_int(config, "vocab_size")
        return cls(
            architecture=architecture, vocab_size=vocab_size, hidden_size=hidden_size,
            intermediate_size=positive_int(config, "intermediate_size"), num_layers=num_layers, num_heads=num_heads,
            num_kv_heads=num_kv_heads, head_dim=head_dim, norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope=RopeConfig.from_hf(config, max_positions), qk_norm=family.qk_norm,
            qkv_bias=_stated(family.qkv_bias, config, "attention_bias"),
            out_bias=_stated(family.out_bias, config, "attention_bias"),
            mlp_bias=_stated(family.mlp_bias, config, "mlp_bias"),
            tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
            sliding_windows=_sliding_windows(config, family, num_layers), max_position_embeddings=max_positions,
            bos_token_id=config.get("bos_token_id"),
            eos_token_ids=token_ids(config.get("eos_token_id") if eos is None else eos, vocab_size))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; raises CheckpointError when there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds a {type(value).__name__}, not a JSON object")
    return value


def positive_int(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """An integer ≥ 1 of config.json; a missing or null one is `default`. Raises CheckpointError."""
    value = config.get(name)
    value = default if value is None else value
    if value is None:
        raise CheckpointError(f"{name!r} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"{name!r} must be an integer ≥ 1, found {value!r}")
    return value


def token_ids(value: Any, vocab_size: int) -> tuple[int, ...]:
    """`eos_token_id` as Hugging Face writes it: an id, a list of ids, or null. Raises CheckpointError."""
    ids = () if value is None else tuple(value) if isinstance(value, list) else (value,)
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab_size:
            raise CheckpointError(f"'eos_token_id' {token!r} is not an id of the vocabulary of {vocab_size}")
    return ids


def refuse_unsupported(config: Mapping[str, Any]) -> None:
    """Raise CheckpointError for the first setting of UNSUPPORTED_UNLESS that asks for more than is implemented."""
    for name, accepted in UNSUPPORTED_UNLESS.items():
        if config.get(name) not in accepted:
            shown = [value for value in accepted if value is not None]
            only = f"; supported: {', '.join(map(repr, shown))}" if shown else ""
            raise CheckpointError(f"{name!r} {config[name]!r} is not supported{only}")


def _architecture(config: Mapping[str, Any]) -> str:
    architectures = config.get("architectures") or []
    known = next((name for name in architectures if name in FAMILIES), None)
    if known is None:
        found = ", ".join(map(str, architectures)) or "none stated"
        raise CheckpointError(f"architecture {found!r} is unknown; known: {', '.join(FAMILIES)}")
    return known


def _stated(fixed: bool | None, config: Mapping[str, Any], name: str) -> bool:
    return bool(config.get(name, False)) if fixed is None else fixed


def _sliding_windows(config: Mapping[str, Any], family: Family, num_layers: int) -> tuple[int | None, ...]:
    """The window of each layer, from `sliding_window`, `use_sliding_window`, `max_window_layers`, `layer_types`."""
    layer_types = config.get("layer_types")
    if layer_types is not None and (len(layer_types) != num_layers
                                    or set(layer_types) - {"full_attention", "sliding_attention"}):
        raise CheckpointError(f"'layer_types' must be 'full_attention' or 'sliding_attention' for each of the "
                              f"{num_layers} layers, found {layer_types!r}")
    window = config.get("sliding_window", family.sliding_window)
    if family.windowed == "by_flag" and not config.get("use_sliding_window", False):
        window = None
    if window is not None:
        window = positive_int({"sliding_window": window}, "sliding_window")
    if family.windowed != "by_flag":
        window = window if family.windowed == "always" else None
        uniform = "full_attention" if window is None else "sliding_attention"
        if layer_types is not None and set(layer_types) != {uniform}:
            raise CheckpointError("'layer_types' that differ from layer to layer are not supported here")
        return (window,) * num_layers
    if layer_types is None:
        first = config.get("max_window_layers", 28)
        layer_types = ["sliding_attention" if layer >= first else "full_attention" for layer in range(num_layers)]
    elif window is None and "sliding_attention" in layer_types:
        raise CheckpointError("'layer_types' asks for 'sliding_attention', but no window is in use")
    return tuple(window if kind == "sliding_attention" else None for kind in layer_types)
