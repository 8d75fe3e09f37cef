"""The Triton implementations of the operations; each module is imported when it is first used.

Triton need not be installed where there is no GPU. So `from specguide.kernels import triton`
imports none of the modules, and `triton.norm.rms_norm` imports one. Type checkers see them all.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "activation",
    "argmax",
    "bitmask",
    "delta_inputs",
    "delta_rule",
    "drafts",
    "experts",
    "experts_float8",
    "float8",
    "gates",
    "growth",
    "hopper",
    "host_calls",
    "int4",
    "int4_hopper",
    "int4_planes",
    "latent",
    "linear",
    "linear_float8",
    "linear_hopper",
    "lora",
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
        delta_inputs,
        delta_rule,
        drafts,
        experts,
        experts_float8,
        float8,
        gates,
        growth,
        hopper,
        host_calls,
        int4,
        int4_hopper,
        int4_planes,
        latent,
        linear,
        linear_float8,
        linear_hopper,
        lora,
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
