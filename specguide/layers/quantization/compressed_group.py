"""Owns the reading of one group of compressed-tensors' `config_groups`: which modules it is for,
and how their weights and inputs are stored (vllm-project/compressed-tensors,
`QuantizationScheme`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int, shown
from specguide.layers.quantization.by_name import module_names

_ARGUMENTS = {
    "num_bits",
    "type",
    "symmetric",
    "group_size",
    "strategy",
    "block_structure",
    "dynamic",
    "actorder",
    # fields on how the scales were found and are stored, which may have any value
    "observer",
    "observer_kwargs",
    "scale_dtype",
    "zp_dtype",
}


@dataclass(frozen=True)
class Arguments:
    """What `weights` or `input_activations` of a group says: how numbers are stored.

    kind:       "int" or "float"
    strategy:   what shares a scale: "tensor", "channel", "group", "block" or "token"
    group_size: columns of a group, for "group"
    block:      rows and columns of a block, for "block"
    is_dynamic: the scales are computed while the model runs
    actorder:   the order of the columns in which GPTQ rounded: "group", "weight" or None
    """

    num_bits: int
    kind: str
    is_symmetric: bool
    strategy: str
    group_size: int | None
    block: tuple[int, ...] | None
    is_dynamic: bool
    actorder: str | None

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Arguments:
        """Arguments with the defaults of compressed-tensors. Raises CheckpointError for invalid
        ones."""
        unknown = [name for name in stated if name not in _ARGUMENTS]
        if unknown:
            raise CheckpointError(f"{shown(unknown[0])} is unknown")
        group_size = _group_size(stated)
        return cls(
            num_bits=positive_int(stated, "num_bits", 8),
            kind=_word(stated, "type", "int") or "int",
            is_symmetric=flag(stated, "symmetric", True),
            strategy=_word(stated, "strategy", None) or _strategy(group_size),
            group_size=None if group_size == -1 else group_size,
            block=_block(stated.get("block_structure")),
            is_dynamic=flag(stated, "dynamic"),
            actorder=_word(stated, "actorder", None),
        )


@dataclass(frozen=True)
class Group:
    """One of `config_groups`.

    name:    the group's name in `config_groups`
    format:  how the weights are stored
    targets: names, patterns or classes of modules
    weights: None: they are not quantized
    inputs:  None: they are not quantized
    """

    name: str
    format: str
    targets: tuple[str, ...]
    weights: Arguments | None
    inputs: Arguments | None

    @classmethod
    def read(cls, name: str, stated: Mapping[str, Any], default_format: str) -> Group:
        """The group that an entry states. Raises CheckpointError for invalid fields, and for
        quantized outputs."""
        if stated.get("output_activations") is not None:
            raise CheckpointError(
                "'output_activations' must be null: quantized outputs are not supported"
            )
        return cls(
            name=name,
            format=_word(stated, "format", None) or default_format,
            targets=tuple(module_names(stated, "targets")),
            weights=_arguments(stated, "weights"),
            inputs=_arguments(stated, "input_activations"),
        )


def _arguments(stated: Mapping[str, Any], name: str) -> Arguments | None:
    if stated.get(name) is None:
        return None
    try:
        return Arguments.read(mapping(stated, name))
    except CheckpointError as error:
        raise CheckpointError(f"{name!r}: {error}") from None


def _word(stated: Mapping[str, Any], name: str, default: str | None) -> str | None:
    value = stated.get(name)
    if value is None or value is False:
        return default
    if not isinstance(value, str):
        raise CheckpointError(f"{name!r} must be a string, found {shown(value)}")
    return value.lower()


def _group_size(stated: Mapping[str, Any]) -> int | None:
    """The stated number of columns in a group; -1: the group is a whole row."""
    value = stated.get("group_size")
    if value is None or value == -1:
        return value
    return positive_int(stated, "group_size")


def _strategy(group_size: int | None) -> str:
    if group_size is None:
        return "tensor"
    return "channel" if group_size == -1 else "group"


def _block(value: Any) -> tuple[int, ...] | None:
    """The sizes of a block: two numbers, or in older files a text like "128x128"."""
    if value is None:
        return None
    sizes = value.split("x") if isinstance(value, str) else value
    if not isinstance(sizes, list) or len(sizes) != 2 or not all(str(s).isdecimal() for s in sizes):
        raise CheckpointError(
            f"'block_structure' must be a list of two sizes, found {shown(value)}"
        )
    return tuple(int(size) for size in sizes)
