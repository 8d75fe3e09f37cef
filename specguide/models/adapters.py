"""Owns the folders of LoRA adapters, as PEFT saves them: what they may contain, and how they are
read into a model's memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import (
    flag,
    is_file,
    mapping,
    naming,
    positive_int,
    positive_number,
    read_json,
    shown,
)
from specguide.layers.destination import Destination
from specguide.layers.lora import LORA_A, LORA_B, NO_LORA, Lora, LoraForm
from specguide.models.multimodal import text_name
from specguide.models.weights import check_weights, load_weights, stored_names

_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_SUFFIXES = {f".{LORA_A}.weight": LORA_A, f".{LORA_B}.weight": LORA_B}
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False,),
    "use_qalora": (False,),
    "lora_bias": (False,),
    "fan_in_fan_out": (False,),
    "modules_to_save": ([],),
    "trainable_token_indices": ([], {}),
    "target_parameters": ([],),
    "megatron_config": (),
    "alora_invocation_tokens": ([],),
    "arrow_config": (),
    "layer_replication": ([],),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),
}
"""Fields of a configuration that would change the product of an adapter, and the values, besides
null, with which they do not. Some initial weights, such as PiSSA's, also change the model's own."""


def read_lora(folders: Sequence[Path]) -> Lora:
    """The forms of the adapters in these folders. Raises CheckpointError for a folder that is no
    adapter, or asks for what is not implemented; the message says what."""
    return Lora([_forms(folder) for folder in folders]) if folders else NO_LORA


def check_adapters(folders: Sequence[Path], destinations: Mapping[str, Destination]) -> None:
    """Raise CheckpointError if an adapter's matrices do not fit the model's `adapter_destinations`,
    which may be on the meta device."""
    for index, folder in enumerate(folders):
        mine = {name: it for name, it in destinations.items() if name.endswith(f".{index}")}
        names = {_renamed(index, name): name for name in stored_names((folder / _WEIGHTS,))}
        if foreign := [name for new, name in names.items() if new not in mine]:
            raise CheckpointError(
                f"{folder / _WEIGHTS}: the model has no place for {min(foreign)}: an adapter may "
                "change the linear layers of attention but kv_b_proj, and of dense feed-forward "
                "layers"
            )
        check_weights((folder / _WEIGHTS,), mine, rename=partial(_renamed, index))


def load_adapters(folders: Sequence[Path], destinations: Mapping[str, Destination]) -> None:
    """Fill the model's `adapter_destinations` from folders that have passed `check_adapters`."""
    for index, folder in enumerate(folders):
        files = (folder / _WEIGHTS,)
        load_weights(files, destinations, rename=partial(_renamed, index))


def is_of_adapter(name: str) -> bool:
    """Whether a destination is an adapter's, by its name."""
    return name.rpartition(".")[0].endswith((f".{LORA_A}", f".{LORA_B}"))


def _renamed(index: int, name: str) -> str:
    """The name of the destination of a tensor of the adapter `index`."""
    map_name, part = _split(name)
    return f"{map_name}.{part}.{index}"


def _split(name: str) -> tuple[str, str]:
    """The map of a tensor of an adapter, by its full name, and which of its two matrices it is."""
    for suffix, part in _SUFFIXES.items():
        if name.endswith(suffix):
            return text_name(name.removeprefix(_PREFIX).removesuffix(suffix)), part
    return name, ""


def _forms(folder: Path) -> dict[str, LoraForm]:
    path = folder / _CONFIG
    if not is_file(path) or not is_file(folder / _WEIGHTS):
        raise CheckpointError(
            f"{folder}: no LoRA adapter: it needs {_CONFIG} and {_WEIGHTS}, as PEFT's "
            "save_pretrained writes them"
        )
    config = read_json(path)
    names = stored_names((folder / _WEIGHTS,))
    with naming(path):
        _check(config)
        maps = {_split(name)[0] for name in names}
        return {name: _form(config, name) for name in maps}


def _check(config: Mapping[str, Any]) -> None:
    for name, neutral in _NEUTRAL.items():
        value = config.get(name)
        if value is not None and value not in neutral:
            raise CheckpointError(
                f"{name!r} {shown(value)} is not supported for a LoRA adapter; merge it into the "
                "model, or train it without"
            )


def _form(config: Mapping[str, Any], name: str) -> LoraForm:
    rank = positive_int(_of_map(config, "rank_pattern", "r", name), "r")
    alpha = positive_number(_of_map(config, "alpha_pattern", "lora_alpha", name), "lora_alpha")
    return LoraForm(rank, alpha / (math.sqrt(rank) if flag(config, "use_rslora") else rank))


def _of_map(
    config: Mapping[str, Any], patterns: str, otherwise: str, name: str
) -> Mapping[str, Any]:
    """The field `otherwise` for one map: from the first of `patterns` that its name ends with, if
    there is one. Raises CheckpointError for a pattern that is not a plain name."""
    for pattern, value in mapping(config, patterns).items():
        if not pattern.replace(".", "").replace("_", "").isalnum():
            raise CheckpointError(
                f"{patterns!r} must have names of modules, found {shown(pattern)}"
            )
        if name == pattern or name.endswith(f".{pattern}"):
            return {otherwise: value}
    return config
