"""Owns CacheScheme: how a quantized checkpoint wants keys and values to be cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specguide.inputs.json_fields import shown

_FIELDS: dict[str, tuple[Any, ...]] = {
    "num_bits": (8,),
    "type": ("float",),
    "strategy": (None, "tensor"),
    "dynamic": (None, False),
    "symmetric": (None, True),
}
"""Fields of `kv_cache_scheme`, with the values that are supported."""
_OF_AUTO_FP8 = "static"
"""What AutoFP8 states in place of `kv_cache_scheme`."""


@dataclass(frozen=True)
class CacheScheme:
    """A float8 cache with one scale for all keys of a layer and one for its values.

    problem: why the cache cannot be as the checkpoint wants it, as text; None: it can
    """

    problem: str | None = None


def read_cache_scheme(config: Mapping[str, Any]) -> CacheScheme | None:
    """The scheme that the contents of config.json state: `kv_cache_scheme` (compressed-tensors,
    AutoFP8) or `kv_cache_quant_algo` (ModelOpt). None: keys and values are cached in the model's
    dtype."""
    stated = config.get("quantization_config")
    if not isinstance(stated, Mapping):
        return None
    nested = stated.get("quantization")
    fields = nested if isinstance(nested, Mapping) else stated
    scheme, algorithm = fields.get("kv_cache_scheme"), fields.get("kv_cache_quant_algo")
    if scheme:
        return _of_fields(scheme)
    if not algorithm:
        return None
    if algorithm == "FP8":
        return CacheScheme()
    return CacheScheme(f"'kv_cache_quant_algo' {shown(algorithm)} is not supported; known: 'FP8'")


def _of_fields(scheme: Any) -> CacheScheme:
    if scheme == _OF_AUTO_FP8:
        return CacheScheme()
    if not isinstance(scheme, Mapping):
        return CacheScheme(f"'kv_cache_scheme' {shown(scheme)} is not supported")
    for name, known in _FIELDS.items():
        if scheme.get(name) not in known:
            return CacheScheme(
                f"'kv_cache_scheme': {name!r} {shown(scheme.get(name))} is not supported"
            )
    return CacheScheme()
