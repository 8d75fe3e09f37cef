"""Owns the checkpoint formats of float8: how each is stated in `quantization_config`."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import mapping, shown
from specguide.kernels.float8 import BLOCK
from specguide.layers.quantization.by_name import (
    SMALL_MAPS,
    ByName,
    ModuleList,
    check_known,
    module_names,
)
from specguide.layers.quantization.compressed_group import Arguments, Group
from specguide.layers.quantization.float8 import Float8, Stored
from specguide.layers.quantization.float8_blocks import Float8Blocks
from specguide.layers.quantization.method import Quantization
from specguide.layers.quantization.none import UNQUANTIZED

ONLINE = ByName(
    ((None, Float8(Stored.UNROUNDED)),), ModuleList(frozenset({"lm_head"}), parts=SMALL_MAPS)
)
"""Rounds an unquantized checkpoint row by row while it is read; the output matrix and small maps
stay unquantized."""

_BLOCKS = (BLOCK, BLOCK)
_STORED = {"tensor": Stored.TENSOR, "channel": Stored.CHANNEL}
_FP8_FIELDS = {
    "quant_method",
    "activation_scheme",
    "weight_block_size",
    "modules_to_not_convert",
    "ignored_layers",
    "kv_cache_scheme",
}
_FP8_VALUES: dict[str, tuple[Any, ...]] = {
    "fmt": ("e4m3", "float8_e4m3fn"),
    "dequantize": (False,),
    "scale_fmt": ("float", "ue8m0"),
    "expert_dtype": ("fp8",),
}
"""Fields of quant_method "fp8" that must have one of these values, besides null. Scales in "ue8m0"
are powers of two. The inputs' own scales are not rounded to these, which is at least as exact."""
_OF_TRANSFORMERS = {"weight_scale_inv": "weight_scale", "activation_scale": "input_scale"}
_MODELOPT_ALGORITHMS: dict[str, Quantization] = {
    "FP8": Float8(Stored.TENSOR, has_static_inputs=True),
    "FP8_PER_CHANNEL_PER_TOKEN": Float8(Stored.CHANNEL),
    "FP8_PB_WO": Float8Blocks("weight_scale"),
}


def of_group(group: Group) -> Quantization:
    """compressed-tensors' "float-quantized": weights with a scale for each tensor, channel or block
    of 128 × 128, inputs with static scales or one for each token or group of 128.

    If the checkpoint asks for one dynamic scale for all tokens of a batch, each token gets its own
    instead: this is at least as exact, and a token's numbers do not depend on its neighbours.
    Raises CheckpointError for other combinations.
    """
    weights, inputs = group.weights, group.inputs
    if weights is None:
        return UNQUANTIZED
    for name, arguments in (("weights", weights), ("input_activations", inputs)):
        if arguments is None:
            raise CheckpointError(f"fp8 weights without fp8 {name!r} are not supported")
        if (arguments.num_bits, arguments.kind) != (8, "float") or not arguments.is_symmetric:
            raise CheckpointError(f"{name!r} are not symmetric floats of 8 bits: {arguments}")
    assert inputs is not None
    if weights.strategy == "block":
        return _blocks_of_group(weights, inputs)
    is_known = inputs.strategy == "tensor" or (inputs.strategy == "token" and inputs.is_dynamic)
    if weights.strategy not in _STORED or not is_known:
        raise CheckpointError(
            f"weights with the strategy {weights.strategy!r} and inputs with the strategy "
            f"{inputs.strategy!r} are not supported together"
        )
    return Float8(_STORED[weights.strategy], has_static_inputs=not inputs.is_dynamic)


def _blocks_of_group(weights: Arguments, inputs: Arguments) -> Quantization:
    is_grouped = inputs.strategy == "group" and inputs.group_size == BLOCK and inputs.is_dynamic
    if weights.block != _BLOCKS or not is_grouped:
        raise CheckpointError(
            f"weights in blocks of {shown(weights.block)} and inputs with the strategy "
            f"{inputs.strategy!r} are not supported together: only blocks of {_BLOCKS} with inputs "
            f"in dynamic groups of {BLOCK}"
        )
    return Float8Blocks("weight_scale")


def read_fp8(stated: Mapping[str, Any]) -> Quantization:
    """quant_method "fp8", as vLLM, AutoFP8 and transformers write it: one scale for each tensor, or
    for each block of 128 × 128 as DeepSeek and Qwen publish. The output matrix and experts' routers
    are not quantized, though nothing in DeepSeek's configuration says so.

    Raises CheckpointError for what is not implemented.
    """
    _check_fields(stated)
    scheme = stated.get("activation_scheme", "dynamic")
    if scheme not in ("dynamic", "static"):
        raise CheckpointError(
            f"'activation_scheme' {shown(scheme)} is unknown; known: 'dynamic', 'static'"
        )
    ignored = module_names(stated, "modules_to_not_convert") + module_names(
        stated, "ignored_layers"
    )
    blocks = stated.get("weight_block_size")
    if blocks is None:
        quantization: Quantization = Float8(Stored.TENSOR, has_static_inputs=scheme == "static")
    elif blocks == list(_BLOCKS) and scheme == "dynamic":
        quantization = Float8Blocks("weight_scale_inv")
    else:
        raise CheckpointError(
            f"'weight_block_size' {shown(blocks)} with {scheme} inputs is not supported: only "
            f"{list(_BLOCKS)} with dynamic ones"
        )
    return ByName(((None, quantization),), ModuleList.of_parts([*ignored, "lm_head", *SMALL_MAPS]))


def _check_fields(stated: Mapping[str, Any]) -> None:
    check_known(stated, _FP8_FIELDS | _FP8_VALUES.keys())
    for name, known in _FP8_VALUES.items():
        if stated.get(name) not in (None, *known):
            raise CheckpointError(
                f"'quantization_config': {name!r} {shown(stated[name])} is not supported"
            )


def scale_name(name: str, known: Container[str]) -> str:
    """The name of a checkpoint's tensor among `known` ones: transformers has its own names for the
    scales of whole tensors."""
    stem, _, kind = name.rpartition(".")
    other = f"{stem}.{_OF_TRANSFORMERS.get(kind, kind)}"
    return other if name not in known and other in known else name


def read_modelopt(stated: Mapping[str, Any]) -> Quantization:
    """quant_method "modelopt": the contents of ModelOpt's hf_quant_config.json, or what it writes
    into config.json. Raises CheckpointError for what is not implemented."""
    fields = mapping(stated, "quantization") or stated
    algorithm = fields.get("quant_algo")
    if not isinstance(algorithm, str) or algorithm.upper() not in _MODELOPT_ALGORITHMS:
        raise CheckpointError(
            f"'quant_algo' {shown(algorithm)} of ModelOpt is not supported; known: "
            f"{', '.join(_MODELOPT_ALGORITHMS)}"
        )
    ignored = module_names(fields, "exclude_modules") + module_names(fields, "ignore")
    quantization = _MODELOPT_ALGORITHMS[algorithm.upper()]
    return ByName(((None, quantization),), ModuleList.of_wildcards(ignored))
