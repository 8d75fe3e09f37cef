"""Owns the GPTQ checkpoint format (Frantar et al. 2022, arXiv 2210.17323) as AutoGPTQ and GPTQModel
write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int, shown
from specguide.kernels.int4 import SYMMETRIC_ZERO
from specguide.layers.destination import Destination, finite
from specguide.layers.quantization.by_name import SMALL_MAPS, ByName, ModuleList
from specguide.layers.quantization.int4 import (
    Int4,
    Int4Weights,
    check_int4,
    checked,
    group_size_of,
    num_words,
    numbers_of_words,
    packed,
    zero_bias,
)
from specguide.layers.quantization.method import Quantization

_ZERO_OFFSETS = {"gptq": 0x11111111, "gptq_v2": 0}
"""What is added to a word of eight stored zeros, by `checkpoint_format`. The older format stores
each zero minus 1. It subtracts from the whole word, so that a 0 borrows from its neighbour."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "pack_dtype": (None, "int32"),
    "is_marlin_format": (None, False),
    "rotation": (None,),
    "adapter": (None, {}),
}
"""Fields that can change the meaning of the numbers, with the values that do not."""
_EXCEPT = "-:"


@dataclass(frozen=True)
class Gptq(Int4):
    """The tensors qweight int32 [in_features / 8, out_features], qzeros int32 [groups, out_features
    / 8], scales float16 [groups, out_features], and g_idx int32 [in_features], the group of each
    column.

    zero_offset: added to a word of stored zeros
    """

    zero_offset: int = 0

    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        matrix = weights.matrix
        shape = num_words(matrix.in_features, "input"), matrix.out_features
        destinations = {
            "qweight": weights.words_of(shape, lambda stored: numbers_of_words(stored.t())),
            "qzeros": self._zeros(weights),
            "scales": Destination(matrix.scales, tuple(matrix.scales.shape), finite),
            "g_idx": weights.order_of() if self.has_order else _trivial_groups(weights),
        }
        if weights.bias is None:
            destinations["bias"] = zero_bias(weights)
        return destinations

    def _zeros(self, weights: Int4Weights) -> Destination:
        matrix = weights.matrix
        shape = len(matrix.scales), num_words(matrix.out_features, "output")
        if matrix.zeros is not None:
            return packed(matrix.zeros, shape, self._zero_numbers)
        return checked(
            weights,
            shape,
            torch.int32,
            lambda stored: bool((self._zero_numbers(stored) == SYMMETRIC_ZERO).all()),
            f"has zeros other than {SYMMETRIC_ZERO}, though 'sym' is true in 'quantization_config'",
        )

    def _zero_numbers(self, stored: Tensor) -> Tensor:
        return numbers_of_words(stored + self.zero_offset)


def _trivial_groups(weights: Int4Weights) -> Destination:
    num_columns, size = weights.matrix.in_features, weights.matrix.group_size
    return checked(
        weights,
        (num_columns,),
        torch.int32,
        lambda stored: torch.equal(stored.cpu().long(), torch.arange(num_columns) // size),
        "reorders columns, though 'desc_act' is not true in 'quantization_config'",
    )


def read_gptq(stated: Mapping[str, Any]) -> Quantization:
    """The quantization that `quantization_config` states. Raises CheckpointError for what is not
    implemented."""
    group_size = group_size_of(stated, "group_size")
    check_int4(positive_int(stated, "bits"), group_size)
    for name, neutral in _NEUTRAL.items():
        if stated.get(name) not in neutral:
            raise CheckpointError(f"GPTQ's {name!r} {shown(stated[name])} is not supported")
    form = stated.get("checkpoint_format") or "gptq"
    if form not in _ZERO_OFFSETS:
        raise CheckpointError(
            f"GPTQ's 'checkpoint_format' {shown(form)} is not supported; known: "
            f"{', '.join(_ZERO_OFFSETS)}"
        )
    gptq = Gptq(
        group_size,
        has_zeros=not flag(stated, "sym", True),
        has_order=flag(stated, "desc_act") and group_size is not None,
        scale_dtype=torch.float16,
        zero_offset=_ZERO_OFFSETS[form],
    )
    return ByName(((_converted(stated), gptq),), _ignored(stated))


def _converted(stated: Mapping[str, Any]) -> ModuleList | None:
    """The modules in the lists of `modules_in_block_to_quantize`; None: all."""
    blocks = stated.get("modules_in_block_to_quantize")
    if blocks is None:
        return None
    if not isinstance(blocks, list) or not all(isinstance(block, list) for block in blocks):
        raise CheckpointError(
            f"'modules_in_block_to_quantize' must hold lists of names, found {shown(blocks)}"
        )
    return ModuleList.of_parts([*(str(part) for block in blocks for part in block), "lm_head"])


def _ignored(stated: Mapping[str, Any]) -> ModuleList:
    """The modules that are not quantized: the output matrix unless `lm_head` says otherwise, and
    those that match the patterns of `dynamic` behind `-:`."""
    rules = mapping(stated, "dynamic")
    for rule in rules:
        if not rule.startswith(_EXCEPT):
            raise CheckpointError(
                f"GPTQ's 'dynamic' {shown(rule)} is not supported: only rules that begin with "
                f"{_EXCEPT!r}, for modules that are not quantized"
            )
    patterns = [f"re:{rule.removeprefix(_EXCEPT)}" for rule in rules]
    own = () if flag(stated, "lm_head") else ("lm_head",)
    return ModuleList.of_parts([*patterns, *own, *SMALL_MAPS])
