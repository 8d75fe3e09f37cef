"""Owns which tensors of a checkpoint a model leaves aside."""

from __future__ import annotations

import re

from specguide.layers.quantization.by_name import SMALL_MAPS
from specguide.models.config import ModelConfig
from specguide.models.multimodal import is_of_encoder

MTP_PREFIX = "model.mtp_layers."
"""Prefix of the tensors of MiMo's multi-token-prediction head, which a target's checkpoint may
contain beside its own."""

_KEYS = re.compile(r"model\.layers\.(\d+)\.self_attn\.[kv]_(proj|norm|scale)\b")
_OTHER_MTP_PREFIXES = ("mtp.", "model.mtp.")


def is_left_aside(config: ModelConfig, name: str) -> bool:
    """Whether a tensor may be in a checkpoint, although the model does not use it."""
    return (
        name.endswith("rotary_emb.inv_freq")
        or _is_of_mtp(name, config)
        or _is_of_shared_keys(name, config)
        or _is_of_small_map(name)
        or (config.tie_word_embeddings and name == "lm_head.weight")
        or (config.has_encoders and is_of_encoder(name))
    )


def _is_of_shared_keys(name: str, config: ModelConfig) -> bool:
    """Whether it would make keys or values in a layer that reads those of another layer."""
    match = _KEYS.match(name)
    if match is None:
        return False
    layer = int(match[1])
    return layer < config.num_layers and config.key_source(layer) != layer


def _is_of_small_map(name: str) -> bool:
    """Whether it is a scale that transformers saves beside a small map, whose weight it has not
    rounded."""
    stem, _, kind = name.rpartition(".")
    return kind == "weight_scale_inv" and stem.endswith(SMALL_MAPS)


def _is_of_mtp(name: str, config: ModelConfig) -> bool:
    """Whether it belongs to an MTP layer: DeepSeek numbers these on behind the model's own
    layers."""
    first, num_behind = config.num_layers, config.num_mtp_layers
    behind = tuple(f"model.layers.{first + index}." for index in range(num_behind))
    return name.startswith((MTP_PREFIX, *_OTHER_MTP_PREFIXES, *behind))
