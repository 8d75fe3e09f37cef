"""The narrow interface to everything that runs on the device.

Each function is its plain-torch twin on a CPU and a Triton kernel on a GPU; what it does is said
once, at the twin. On a GPU all of them can be captured in a CUDA graph: lengths and masks are read
on the device, and a launch depends on nothing but shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

from specguide.kernels import paged, pointwise, reference
from specguide.kernels.host_values import constant, on_device
from specguide.kernels.pointwise import gelu_tanh_mul
from specguide.kernels.sampling_tensors import SamplingTensors

_P = ParamSpec("_P")
_R = TypeVar("_R")


def with_triton(room: str, twin: Callable[_P, _R]) -> Callable[_P, _R]:
    """`twin`, or its namesake in triton_<room> where the first argument is on a GPU."""

    @cache
    def fast() -> Callable[
        _P, _R
    ]:  # Triton is imported where it runs, since it need not be installed elsewhere
        return getattr(import_module(f"specguide.kernels.triton_{room}"), twin.__name__)

    @wraps(twin)
    def kernel(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return (fast() if args[0].is_cuda else twin)(*args, **kwargs)  # type: ignore[attr-defined]

    return kernel


add_rms_norm = with_triton("norm", pointwise.add_rms_norm)
apply_bitmask = with_triton("bitmask", reference.apply_bitmask)
copy_guided_rows = with_triton("bitmask", reference.copy_guided_rows)
gated_linear = with_triton("linear", pointwise.gated_linear)
linear = with_triton("linear", pointwise.linear)
linear_parts = with_triton("linear", pointwise.linear_parts)
masked_argmax = with_triton("argmax", reference.masked_argmax)
masked_sample = with_triton("sample", reference.masked_sample)
masked_top_k = with_triton("top_k", reference.masked_top_k)
norm_into = with_triton("norm", pointwise.norm_into)
paged_attention = with_triton("attention", paged.paged_attention)
rms_norm = with_triton("norm", pointwise.rms_norm)
rope_and_store = with_triton("rope", pointwise.rope_and_store)
silu_mul = with_triton("activation", pointwise.silu_mul)
store_kv = with_triton("rope", paged.store_kv)

__all__ = [
    "SamplingTensors",
    "add_rms_norm",
    "apply_bitmask",
    "constant",
    "copy_guided_rows",
    "gated_linear",
    "gelu_tanh_mul",
    "linear",
    "linear_parts",
    "masked_argmax",
    "masked_sample",
    "masked_top_k",
    "norm_into",
    "on_device",
    "paged_attention",
    "rms_norm",
    "rope_and_store",
    "silu_mul",
    "store_kv",
    "with_triton",
]
