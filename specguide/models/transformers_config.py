"""Owns TransformersConfig: what is found out about a folder whose model runs on transformers' own
modules."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from specguide.errors import CheckpointError
from specguide.host.transformers_import import import_transformers
from specguide.inputs.json_fields import naming, read_json, shown, token_ids
from specguide.layers.norm import NormKind
from specguide.layers.quantization import read_quantization
from specguide.layers.rope import RopeConfig
from specguide.models import transformers_trial
from specguide.models.config import LARGEST, ModelConfig
from specguide.models.multimodal import is_multimodal, stated_text, text_fields
from specguide.models.transformers_ropes import hold_frequencies
from specguide.models.transformers_trial import LayerAttention

_OTHER_LAYERS = ("linear_attention", "mamba", "conv", "chunked_attention", "recurrent")


@dataclass(frozen=True, kw_only=True)
class TransformersConfig(ModelConfig):
    """The configuration of such a model. stated: transformers' own configuration; layers: what each
    layer asks of the attention"""

    stated: Any = field(compare=False)
    layers: tuple[LayerAttention, ...]


def known_to_transformers(fields: Mapping[str, Any]) -> str | None:
    """The first of the `architectures` that transformers has as a causal language model."""
    import_transformers()
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    names = fields.get("architectures")
    known = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    if not isinstance(names, list):
        return None
    return next((name for name in names if isinstance(name, str) and name in known), None)


def read_transformers_config(folder: Path) -> TransformersConfig:
    """Read a folder's configuration. Raises CheckpointError for a model that cannot run over the
    paged cache."""
    path = folder / "config.json"
    fields: Mapping[str, Any] = read_json(path)
    with naming(path):
        has_encoders = is_multimodal(fields)
        fields = text_fields(folder, fields) if has_encoders else fields
        architecture = known_to_transformers(fields)
        if architecture is None:
            raise CheckpointError(_why_unknown(fields))
        stated = stated_text(folder)
        _check(stated, architecture)
        eos = _end_tokens(folder, fields, stated.vocab_size)
        with naming_model(architecture):
            model = skeleton_of(stated, architecture, stated.max_position_embeddings)
            layers = transformers_trial.run_trial(model, model.base_model, stated.num_hidden_layers)
        config = _config(stated, architecture, layers, fields, eos)
        return replace(config, has_encoders=has_encoders)


def naming_model(architecture: str) -> AbstractContextManager[None]:
    """A context in which error messages name the model as one that runs on transformers'
    modules."""
    return naming(Path(f"{architecture} by transformers' modules"))


def _why_unknown(fields: Mapping[str, Any]) -> str:
    names = shown(fields.get("architectures"))
    if fields.get("auto_map"):
        return (
            f"architecture {names} comes with Python code in the folder (remote code), which is "
            "never run here"
        )
    if fields.get("is_encoder_decoder"):
        return f"architecture {names} has an encoder: only decoder-only models are supported"
    return f"architecture {names} is not a causal language model of transformers"


def _check(stated: Any, architecture: str) -> None:
    if getattr(stated, "is_encoder_decoder", False):
        raise CheckpointError(
            f"{architecture} has an encoder: only decoder-only models are supported"
        )
    for kind in getattr(stated, "layer_types", None) or ():
        if any(other in kind for other in _OTHER_LAYERS):
            raise CheckpointError(f"layers of kind {shown(kind)} are not supported")
    for name in ("vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"):
        value = getattr(stated, name, None)
        if not isinstance(value, int) or not 0 < value <= LARGEST[name]:
            raise CheckpointError(f"{name!r} must be a positive integer, found {shown(value)}")


def _end_tokens(folder: Path, fields: Mapping[str, Any], vocab_size: int) -> tuple[int, ...]:
    path = folder / "generation_config.json"
    generation = read_json(path) if path.exists() else {}
    stated = generation if generation.get("eos_token_id") is not None else fields
    return token_ids(stated, "eos_token_id", vocab_size) or ()


def skeleton_of(stated: Any, architecture: str, max_positions: int) -> Any:
    """The model without memory, on the meta device. Raises CheckpointError."""
    with torch.device("meta"):
        return _built(stated, architecture, torch.float32, max_positions)


def without_parameters(
    stated: Any, architecture: str, dtype: torch.dtype, max_positions: int
) -> Any:
    """The model with parameters on the meta device, and with buffers on a CPU, as its constructors
    compute them. Raises CheckpointError."""
    thread = threading.get_ident()

    def to_meta(module: nn.Module, name: str, parameter: Tensor) -> Any:
        if parameter.device.type == "meta" or threading.get_ident() != thread:
            return None
        return nn.Parameter(parameter.to("meta"), requires_grad=False)

    handle = register_module_parameter_registration_hook(to_meta)
    try:
        return _built(stated, architecture, dtype, max_positions)
    finally:
        handle.remove()


def _built(stated: Any, architecture: str, dtype: torch.dtype, max_positions: int) -> Any:
    import transformers

    transformers_trial.register()
    model_class = getattr(transformers, architecture)
    try:
        model = model_class._from_config(
            copy.deepcopy(stated), dtype=dtype, attn_implementation=transformers_trial.PAGED
        )
    except Exception as error:  # each model's own code may raise anything
        raise CheckpointError(
            "it cannot be built with another implementation of attention: "
            f"{type(error).__name__}: {error}"
        ) from None
    _check_experts(model)
    hold_frequencies(model, max_positions)
    return model.eval()


def _check_experts(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if type(module).__name__.endswith(("Experts", "MoE", "SparseMoeBlock")):
            raise CheckpointError(f"a mixture of experts is not supported: {name}")


def _config(
    stated: Any,
    architecture: str,
    layers: tuple[LayerAttention, ...],
    fields: Mapping[str, Any],
    eos: tuple[int, ...],
) -> TransformersConfig:
    first = layers[0]
    inner = getattr(stated, "intermediate_size", None)
    return TransformersConfig(
        architecture=architecture,
        vocab_size=stated.vocab_size,
        hidden_size=stated.hidden_size,
        intermediate_size=inner if isinstance(inner, int) else 4 * stated.hidden_size,
        num_layers=len(layers),
        num_heads=max(layer.num_heads for layer in layers),
        num_kv_heads=first.num_kv_heads,
        head_dim=first.head_dim,
        norm=NormKind(1e-6),
        rope=RopeConfig(),
        tie_word_embeddings=bool(getattr(stated, "tie_word_embeddings", False)),
        sliding_windows=tuple(layer.window for layer in layers),
        max_position_embeddings=stated.max_position_embeddings,
        quantization=read_quantization(fields),
        eos_token_ids=eos,
        stated=stated,
        layers=layers,
    )
