"""The Triton implementations of the operations; each module is imported when first asked for.

Triton need not be installed where there is no GPU, so `from specguide.kernels import triton`
imports none of them, and `triton.norm.rms_norm` that one. A type checker sees what they are.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "activation",
    "argmax",
    "bitmask",
    "drafts",
    "experts",
    "float8",
    "growth",
    "hopper",
    "host_calls",
    "int4",
    "int4_hopper",
    "int4_planes",
    "linear",
    "linear_float8",
    "linear_hopper",
    "nodes",
    "norm",
    "peers",
    "pick",
    "prompts",
    "rope",
    "routing",
    "sample",
    "shares",
    "slot_rows",
    "synthetic",
    "top_k",
    "tree",
    "tree_choice",
]

if TYPE_CHECKING:
    from specguide.kernels.triton import (
        activation,
        argmax,
        bitmask,
        drafts,
        experts,
        float8,
        growth,
        hopper,
        host_calls,
        int4,
        int4_hopper,
        int4_planes,
        linear,
        linear_float8,
        linear_hopper,
        nodes,
        norm,
        peers,
        pick,
        prompts,
        rope,
        routing,
        sample,
        shares,
        slot_rows,
        synthetic,
        top_k,
        tree,
        tree_choice,
    )
else:

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")
