"""Owns the checkpoints of compressed-tensors (vllm-project/compressed-tensors, written by
llm-compressor): a table of their formats, and how `config_groups` chooses between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import mapping, shown
from specguide.layers.quantization.by_name import ByName, ModuleList, module_names
from specguide.layers.quantization.compressed_group import Group
from specguide.layers.quantization.float8_formats import of_group as float8_of_group
from specguide.layers.quantization.method import Quantization
from specguide.layers.quantization.none import UNQUANTIZED
from specguide.layers.quantization.pack_quantized import of_group as int4_of_group

FORMATS: dict[str, Callable[[Group], Quantization]] = {
    "float-quantized": float8_of_group,
    "naive-quantized": float8_of_group,
    "pack-quantized": int4_of_group,
}
"""Functions that make a quantization from a group, by the group's `format`. They raise
CheckpointError for arguments that they do not implement."""

_LINEAR = "Linear"
_STATUSES = (None, "compressed", "frozen")
_NEUTRAL = ("sparsity_config", "transform_config", "moe_sparsity_config")
_HARMLESS = (
    "quant_method",
    "config_groups",
    "format",
    "ignore",
    "quantization_status",
    "global_compression_ratio",
    "kv_cache_scheme",  # read by cache_scheme
    "version",
    "provider",
    "run_compressed",
)


def read(stated: Mapping[str, Any]) -> Quantization:
    """The quantization that `quantization_config` states. Raises CheckpointError for what is not
    implemented."""
    _check_fields(stated)
    groups = [
        _group(name, fields, str(stated.get("format")))
        for name, fields in mapping(stated, "config_groups").items()
    ]
    if not groups and stated.get("kv_cache_scheme"):
        return UNQUANTIZED  # only the cache is quantized
    if not groups:
        raise CheckpointError("'quantization_config' has no 'config_groups'")
    named = [group for group in groups if _LINEAR not in group.targets]
    others = [group for group in groups if _LINEAR in group.targets]
    choices = tuple(
        (None if _LINEAR in group.targets else ModuleList.of(group.targets), _quantization(group))
        for group in (*named, *others)  # a module's name takes precedence over its class
    )
    return ByName(choices, ModuleList.of(module_names(stated, "ignore")))


def _check_fields(stated: Mapping[str, Any]) -> None:
    for name, value in stated.items():
        if name in _HARMLESS or (name == "sparsity_config" and _is_dense(value)):
            continue
        if value not in (None, False, {}, []):
            known = "is not supported" if name in _NEUTRAL else "is unknown"
            raise CheckpointError(f"'quantization_config': {shown(name)} {shown(value)} {known}")
    if stated.get("quantization_status") not in _STATUSES:
        raise CheckpointError(
            f"'quantization_status' {shown(stated['quantization_status'])} is not supported: save "
            "the checkpoint as 'compressed'"
        )


def _is_dense(sparsity: Any) -> bool:
    """Whether weights that are partly zero are stored like any others."""
    return isinstance(sparsity, Mapping) and sparsity.get("format") == "dense"


def _group(name: str, stated: Any, default_format: str) -> Group:
    if not isinstance(stated, dict):
        raise CheckpointError(f"'config_groups': {shown(name)} must be a JSON object")
    _check_format(name, str(stated.get("format") or default_format))
    with _naming(name):
        return Group.read(name, stated, default_format)


def _check_format(group: str, name: str) -> None:
    """Raise CheckpointError for an unknown format. This check comes first, because the arguments of
    an unknown format cannot be read."""
    if name.lower() not in FORMATS:
        raise CheckpointError(
            f"'quantization_config': format {shown(name)} of {shown(group)} is not supported; "
            f"known: {', '.join(FORMATS)}"
        )


def _quantization(group: Group) -> Quantization:
    with _naming(group.name):
        return FORMATS[group.format](group)


@contextmanager
def _naming(group: str) -> Iterator[None]:
    """Prefix the message of a CheckpointError with the group's name."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"'config_groups': {shown(group)}: {error}") from None
