"""The narrow interface to everything that runs on the device beside matrix products.

Each function is its plain-torch twin on a CPU and a Triton kernel on a GPU; what it does is said once, at the twin.
On a GPU all of them can be captured in a CUDA graph: lengths and masks are read on the device, and a launch depends
on nothing but shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from specguide.kernels import pointwise, reference
from specguide.kernels.sampling_tensors import SamplingTensors

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _triton(room: str, name: str) -> Callable[..., Any]:
    """`name` in triton_<room>; Triton is imported where it runs, since it need not be installed elsewhere."""
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(f"specguide.kernels.triton_{room}"), name)(*args, **kwargs)

    return kernel


def _with_triton(room: str, twin: Callable[_P, _R]) -> Callable[_P, _R]:
    """`twin`, or its namesake in triton_<room> where the first argument is on a GPU."""
    fast = _triton(room, twin.__name__)

    @wraps(twin)
    def kernel(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return (fast if args[0].is_cuda else twin)(*args, **kwargs)  # type: ignore[attr-defined, no-any-return]

    return kernel


accept_chains = _triton("chain", "accept_chains")
add_rms_norm = _with_triton("norm", pointwise.add_rms_norm)
apply_bitmask = _with_triton("bitmask", reference.apply_bitmask)
masked_argmax = _with_triton("argmax", reference.masked_argmax)
masked_sample = _with_triton("sample", reference.masked_sample)
paged_attention = _with_triton("attention", reference.paged_attention)
place_chains = _triton("chain", "place_chains")
rms_norm = _with_triton("norm", pointwise.rms_norm)
rope_and_store = _with_triton("rope", pointwise.rope_and_store)
silu_mul = _with_triton("activation", pointwise.silu_mul)
store_kv = _with_triton("rope", reference.store_kv)

__all__ = [
    "SamplingTensors", "accept_chains", "add_rms_norm", "apply_bitmask", "masked_argmax", "masked_sample",
    "paged_attention", "place_chains", "rms_norm", "rope_and_store", "silu_mul", "store_kv",
]
