"""Owns how the text model of a folder with encoders for images or sound is read: its configuration
and the names of its tensors. `encoders` reads those of images."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.host.transformers_import import import_transformers
from specguide.inputs.json_fields import read_json, shown
from specguide.layers.quantization.by_name import within
from specguide.models.weights import stored_names, weight_files

MULTIMODAL = frozenset(
    f"{name}ForConditionalGeneration"
    for name in (
        "Gemma3",
        "Gemma4",
        "Gemma4Unified",
        "Idefics3",
        "InternVL",
        "Llava",
        "LlavaNext",
        "LlavaOnevision",
        "Mistral3",
        "Qwen2VL",
        "Qwen2_5_VL",
        "Qwen3VL",
        "Qwen3_5",
        "Qwen3_5Moe",
        "SmolVLM",
        "VipLlava",
    )
)
"""The architectures whose text model reads text without images as if there were no encoder."""

_WITH_THREE_POSITIONS = {
    "qwen2_vl_text": "Qwen2ForCausalLM",
    "qwen2_5_vl_text": "Qwen2ForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
}
"""Text models whose rope has three positions (time, height, width), which are equal in text, and
the architecture to which each is then equivalent."""

_OF_THREE_POSITIONS = ("mrope_section", "mrope_interleaved")
"""Parameters of such a rope."""
_OF_ENCODERS = ("perceiver_config", "pixel_shuffle_factor")
"""Fields of the encoders that SmolVLM and Idefics3 state among those of the text model."""

_PRESENT_NAMES = (
    (re.compile(r"^(model\.)?language_model\.lm_head\b"), "lm_head"),
    (re.compile(r"^(model\.language_model|language_model\.model|model\.text_model)\."), "model."),
)
_TEXT = re.compile(r"(model\.(layers|embed_tokens(_per_layer)?|per_layer_\w+|norm)|lm_head)\.")


def is_multimodal(fields: Mapping[str, Any]) -> bool:
    """Whether this is the config.json of one of MULTIMODAL."""
    names = fields.get("architectures")
    return isinstance(names, list) and any(name in MULTIMODAL for name in map(str, names))


def stated_text(folder: Path) -> Any:
    """transformers' configuration of the folder's text model. Its embeddings are tied if the whole
    model's are; if config.json does not say so for the whole model, they are tied unless the folder
    has an output matrix, because the defaults of transformers have changed. Raises
    CheckpointError."""
    import_transformers()
    from transformers import AutoConfig

    try:
        whole = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        text = whole.get_text_config()
        if text is not whole:
            text.tie_word_embeddings = whole.tie_word_embeddings and (
                "tie_word_embeddings" in read_json(folder / "config.json")
                or not _has_output_matrix(folder)
            )
    except Exception as error:  # it checks values in its own ways
        raise CheckpointError(f"transformers cannot read it: {error}") from None
    return text


def _has_output_matrix(folder: Path) -> bool:
    return any(text_name(name).startswith("lm_head.") for name in _stored_names(folder))


def _stored_names(folder: Path) -> set[str]:
    """The names of the folder's tensors. Empty if they cannot be read, which is reported when the
    weights are read."""
    try:
        return stored_names(weight_files(folder))
    except CheckpointError:
        return set()


def text_fields(folder: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json that a multimodal folder's text model would have on its own. Raises
    CheckpointError."""
    stated = stated_text(folder).to_dict()
    rope = dict(stated.get("rope_parameters") or {})
    prefixes = cache(partial(_text_prefixes, folder))
    outer = {
        name: _of_text(fields[name], prefixes)
        for name in ("quantization_config", "eos_token_id")
        if fields.get(name) is not None
    }
    architecture = _architecture(str(stated["model_type"]))
    own = {name: value for name, value in stated.items() if name not in _OF_ENCODERS}
    return {**own, "rope_parameters": rope, **outer, "architectures": [architecture]}


def rope_of_text(rope: Mapping[str, Any]) -> dict[str, Any]:
    """What a rope with three positions becomes when these are equal."""
    return {
        name: "default" if value == "mrope" else value
        for name, value in rope.items()
        if name not in _OF_THREE_POSITIONS
    }


def _of_text(value: Any, prefixes: Callable[[], list[str]]) -> Any:
    """A value of config.json in which names of modules, if any, are those of the text model alone.
    prefixes: prefixes of the names of its modules in the folder"""
    if isinstance(value, str):
        return within(value, prefixes()) if value.startswith("re:") else text_name(value)
    if isinstance(value, Mapping):
        return {name: _of_text(one, prefixes) for name, one in value.items()}
    return [_of_text(one, prefixes) for one in value] if isinstance(value, list) else value


def _text_prefixes(folder: Path) -> list[str]:
    """What the text model's `model.` is called in the folder, by the names of its tensors, or else
    by the names that transformers has."""
    found = {
        name.removesuffix(text_name(name).removeprefix("model."))
        for name in _stored_names(folder)
        if text_name(name).startswith("model.layers.")
    }
    return sorted(
        found | ({"model.language_model."} if "model.text_model." not in found else set())
    )


def _architecture(model_type: str) -> str:
    import_transformers()
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    known = {**MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **_WITH_THREE_POSITIONS}
    if model_type not in known:
        raise CheckpointError(f"'model_type' {shown(model_type)} of its text model is unknown")
    return str(known[model_type])


def text_name(name: str) -> str:
    """A tensor's or module's name in a checkpoint of the text model alone; other names are
    unchanged."""
    for pattern, present in _PRESENT_NAMES:
        name, count = pattern.subn(present, name)
        if count:
            break
    return name


def is_of_encoder(name: str) -> bool:
    """Whether a tensor of a multimodal folder, by its `text_name`, does not belong to the text
    model."""
    return _TEXT.match(name) is None


def warn_of_encoders(folder: Path) -> None:
    """Warn that only the text model of a folder is served."""
    warnings.warn(
        f"{folder} holds encoders for images or sound beside its text model: only the text model "
        "is loaded, and requests with images or sound are refused",
        UserWarning,
        stacklevel=3,
    )
