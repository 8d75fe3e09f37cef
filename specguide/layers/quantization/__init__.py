"""Quantizations by their name in config.json: a new one is a file here and an entry in
QUANTIZATIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import mapping, shown
from specguide.layers.quantization import compressed_tensors
from specguide.layers.quantization.awq import read_awq
from specguide.layers.quantization.by_name import with_plain_routers
from specguide.layers.quantization.cache_scheme import CacheScheme, read_cache_scheme
from specguide.layers.quantization.experts import BothForms, ExpertWeights, create_experts
from specguide.layers.quantization.float8_formats import ONLINE as ONLINE_FLOAT8
from specguide.layers.quantization.float8_formats import read_fp8, read_modelopt, scale_name
from specguide.layers.quantization.gptq import read_gptq
from specguide.layers.quantization.int4_online import ONLINE as ONLINE_INT4
from specguide.layers.quantization.int4_online import SYMMETRIC as SYMMETRIC_INT4
from specguide.layers.quantization.method import (
    Activation,
    InputFormat,
    MatrixSpec,
    ProjectionInput,
    ProjectionWeights,
    Quantization,
)
from specguide.layers.quantization.mxfp4 import read_mxfp4
from specguide.layers.quantization.none import UNQUANTIZED, PlainWeights

QUANTIZATIONS: dict[str, Callable[[Mapping[str, Any]], Quantization]] = {
    "awq": read_awq,
    "compressed-tensors": compressed_tensors.read,
    "fp8": read_fp8,
    "gptq": read_gptq,
    "modelopt": read_modelopt,
    "mxfp4": read_mxfp4,
}
"""Functions that make a quantization from the fields of `quantization_config`, by `quant_method`.
They raise CheckpointError for fields that they do not implement."""

ONLINE: dict[str, Quantization] = {"fp8": ONLINE_FLOAT8, "int4": ONLINE_INT4}
"""Quantizations that can be applied to an unquantized checkpoint while it is read, by the name in
`EngineConfig.quantization`."""

ONLINE_HEADS: dict[str, Quantization] = {
    "fp8": ONLINE_FLOAT8.including("lm_head"),
    "int4": SYMMETRIC_INT4,
}
"""The same for draft heads, where rounding only costs acceptance. So their own output matrix is
rounded too, and integers have no zeros, which would make products slower."""


def read_quantization(config: Mapping[str, Any]) -> Quantization:
    """The quantization that the contents of config.json state. Raises CheckpointError for an
    unknown method."""
    if config.get("quantization_config") is None:
        return UNQUANTIZED
    stated = mapping(config, "quantization_config")
    method = stated.get("quant_method")
    if not isinstance(method, str) or method not in QUANTIZATIONS:
        raise CheckpointError(
            f"'quantization_config' {shown(dict(stated))} has no 'quant_method' that is supported; "
            f"supported: {', '.join(QUANTIZATIONS)}"
        )
    return QUANTIZATIONS[method](stated)


__all__ = [
    "ONLINE",
    "ONLINE_HEADS",
    "QUANTIZATIONS",
    "UNQUANTIZED",
    "Activation",
    "BothForms",
    "CacheScheme",
    "ExpertWeights",
    "InputFormat",
    "MatrixSpec",
    "PlainWeights",
    "ProjectionInput",
    "ProjectionWeights",
    "Quantization",
    "create_experts",
    "read_cache_scheme",
    "read_quantization",
    "scale_name",
    "with_plain_routers",
]
