"""Owns the AWQ checkpoint format (Lin et al. 2023, arXiv 2306.00978) as AutoAWQ writes it, in the
packing "gemm"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, shown
from specguide.layers.destination import Destination, finite
from specguide.layers.quantization.by_name import ByName, ModuleList, module_names
from specguide.layers.quantization.int4 import (
    Int4,
    Int4Weights,
    check_int4,
    group_size_of,
    num_words,
    numbers_of_words,
    packed,
)
from specguide.layers.quantization.method import Quantization

_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
"""The places in a word, counted from the lowest bits, of the numbers of 8 neighbouring features."""


@dataclass(frozen=True)
class Awq(Int4):
    """The tensors qweight int32 [in_features, out_features / 8], qzeros int32 [groups, out_features
    / 8], scales float16 [groups, out_features]."""

    def destinations(self, weights: Int4Weights) -> dict[str, Destination]:
        matrix = weights.matrix
        num_columns = num_words(matrix.out_features, "output")
        assert matrix.zeros is not None
        num_groups = len(matrix.scales)
        return {
            "qweight": weights.words_of(
                (matrix.in_features, num_columns), lambda stored: _numbers(stored).t()
            ),
            "qzeros": packed(matrix.zeros, (num_groups, num_columns), _numbers),
            "scales": Destination(matrix.scales, tuple(matrix.scales.shape), finite),
        }


def _numbers(words: Tensor) -> Tensor:
    """The numbers in words: int32 [N, out_features / 8] → uint8 [N, out_features]."""
    return numbers_of_words(words).unflatten(1, (-1, 8))[:, :, _PLACES].flatten(1)


def read_awq(stated: Mapping[str, Any]) -> Quantization:
    """The quantization that `quantization_config` states. A map is not quantized if
    `modules_to_not_convert` lists a part of its name. Raises CheckpointError for what is not
    implemented."""
    num_bits = positive_int(stated, "bits" if "bits" in stated else "w_bit")
    group_size = group_size_of(stated, "group_size" if "group_size" in stated else "q_group_size")
    check_int4(num_bits, group_size)
    version = stated.get("version", "gemm")
    if not isinstance(version, str) or version.lower() != "gemm":
        raise CheckpointError(f"AWQ's 'version' {shown(version)} is not supported: only 'gemm' is")
    if not flag(stated, "zero_point", True):
        raise CheckpointError("AWQ without 'zero_point' is not supported")
    parts = [*module_names(stated, "modules_to_not_convert"), "lm_head"]
    ignored = ModuleList(texts=tuple(parts))
    awq = Awq(group_size, has_zeros=True, scale_dtype=torch.float16)
    return ByName(((None, awq),), ignored)
