"""Owns the folders of LoRA adapters, as PEFT saves them: what they may contain, and how they are
read into a model's memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import (
    check_is_folder,
    flag,
    folders_within,
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
from specguide.layers.quantization.name_pattern import NamePattern
from specguide.models.multimodal import text_name
from specguide.models.weights import check_weights, load_weights, stored_names

_CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
"""Names of the file of weights; older versions of PEFT write the second one."""
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
    "megatron_config": (),
    "alora_invocation_tokens": ([],),
    "arrow_config": (),
    "kasa_config": (),
    "monteclora_config": (),
    "velora_config": (),
    "use_bdlora": (False,),
    "layer_replication": ([],),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),
}
"""Fields of a configuration that would change the product of an adapter, and the values, besides
null, with which they do not. Some initial weights, such as PiSSA's, also change the model's own."""


def read_lora(folders: Sequence[Path]) -> Lora:
    """The forms of the adapters in these folders. Raises CheckpointError for a folder that is no
    adapter, or asks for what is not implemented; the message says what."""
    return Lora([_forms(folder) for folder in folders]) if folders else NO_LORA


def check_adapters(
    folders: Sequence[Path],
    destinations: Mapping[str, Destination],
    *,
    ignored: Callable[[str], bool] = lambda name: False,
) -> None:
    """Raise CheckpointError if an adapter's matrices do not fit the model's `adapter_destinations`,
    which may be on the meta device.

    ignored: maps that the model leaves aside, by their full names
    """
    for index, folder in enumerate(folders):
        file = _weights(folder)
        mine = {name: it for name, it in destinations.items() if name.endswith(f".{index}")}
        names = {_renamed(index, name): name for name in stored_names((file,))}
        aside = {new for new, name in names.items() if ignored(_split(name)[0])}
        if foreign := [names[new] for new in names.keys() - mine.keys() - aside]:
            raise CheckpointError(
                f"{file}: the model has no place for {min(foreign)}: an adapter may change the "
                "linear layers of attention but kv_b_proj, and of dense feed-forward layers; merge "
                f"this one into the model (PEFT's merge_and_unload){_trained_for(folder)}"
            )
        if not mine:
            raise CheckpointError(f"{file}: changes nothing in the model{_trained_for(folder)}")
        try:
            check_weights(
                (file,),
                mine,
                ignored=aside.__contains__,
                rename=partial(_renamed, index),
                stated_by="the model",
            )
        except CheckpointError as error:
            raise CheckpointError(f"{error}{_trained_for(folder)}") from None


def load_adapters(folders: Sequence[Path], destinations: Mapping[str, Destination]) -> None:
    """Fill the model's `adapter_destinations` from folders that have passed `check_adapters`."""
    for index, folder in enumerate(folders):
        load_weights((_weights(folder),), destinations, rename=partial(_renamed, index))


def is_of_adapter(name: str) -> bool:
    """Whether a destination is an adapter's, by its name."""
    return name.rpartition(".")[0].endswith((f".{LORA_A}", f".{LORA_B}"))


def _renamed(index: int, name: str) -> str:
    """The name of the destination of a tensor of the adapter `index`."""
    map_name, part = _split(name)
    return f"{map_name}.{part}.{index}"


def _split(name: str) -> tuple[str, str]:
    """The map of a tensor of an adapter, by its full name, and which of its two matrices it is."""
    part = next((part for suffix, part in _SUFFIXES.items() if name.endswith(suffix)), "")
    return text_name(_module(name)), part


def _module(name: str) -> str:
    """The map of a tensor of an adapter, by its name in the model that was trained."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.removeprefix(_PREFIX)


def _weights(folder: Path) -> Path:
    """The file of an adapter's weights. Raises CheckpointError for a folder without an adapter."""
    check_is_folder(folder, "adapter")
    found = [folder / name for name in _WEIGHTS if is_file(folder / name)]
    if not found or not is_file(folder / _CONFIG):
        raise CheckpointError(
            f"{folder}: no LoRA adapter: it needs {_CONFIG} and {_WEIGHTS[0]}, as PEFT's "
            f"save_pretrained writes them{folders_within(folder, _CONFIG)}"
        )
    return found[0]


def _trained_for(folder: Path) -> str:
    """For which model an adapter says that it was trained, with "; " in front."""
    base = read_json(folder / _CONFIG).get("base_model_name_or_path")
    return f"; it was trained for {shown(base)}" if isinstance(base, str) and base else ""


def _forms(folder: Path) -> dict[str, LoraForm]:
    names = {_module(name): _split(name)[0] for name in stored_names((_weights(folder),))}
    path = folder / _CONFIG
    config = read_json(path)
    with naming(path):
        _check(config)
        return {name: _form(config, module) for module, name in names.items()}


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
    there is one. Raises CheckpointError for a pattern that is no regular expression."""
    for pattern, value in mapping(config, patterns).items():
        try:
            NamePattern(pattern).check()
        except CheckpointError as error:
            raise CheckpointError(f"{patterns!r}: {error}") from None
        if NamePattern(rf"(.*\.)?({pattern})$").matches(name):
            return {otherwise: value}
    return config
