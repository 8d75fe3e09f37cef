"""Quantizations by the name that config.json gives them: a new one is a file here and an entry in
QUANTIZATIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.json_fields import mapping, shown
from specguide.layers.quantization.experts import ExpertWeights, create_experts
from specguide.layers.quantization.method import (
    Activation,
    MatrixSpec,
    ProjectionWeights,
    Quantization,
)
from specguide.layers.quantization.none import UNQUANTIZED, PlainWeights

QUANTIZATIONS: dict[str, Callable[[Mapping[str, Any]], Quantization]] = {}
"""By `quant_method`: what makes a quantization of the fields of `quantization_config`; it raises
CheckpointError for those that it does not implement."""


def read_quantization(config: Mapping[str, Any]) -> Quantization:
    """From the contents of config.json. Raises CheckpointError for a method that is not known."""
    if config.get("quantization_config") is None:
        return UNQUANTIZED
    stated = mapping(config, "quantization_config")
    method = stated.get("quant_method")
    if not isinstance(method, str) or method not in QUANTIZATIONS:
        known = f"; known: {', '.join(QUANTIZATIONS)}" if QUANTIZATIONS else ""
        raise CheckpointError(
            f"'quantization_config' {shown(dict(stated))} is not supported{known}"
        )
    return QUANTIZATIONS[method](stated)


__all__ = [
    "QUANTIZATIONS",
    "UNQUANTIZED",
    "Activation",
    "ExpertWeights",
    "MatrixSpec",
    "PlainWeights",
    "ProjectionWeights",
    "Quantization",
    "create_experts",
    "read_quantization",
]
