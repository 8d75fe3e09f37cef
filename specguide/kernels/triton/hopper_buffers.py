"""Owns the shared-memory buffers of the Gluon kernels for Hopper GPUs. A warp that does nothing
else fills them some steps ahead of the products that read them."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

load_block = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
"""The copy by descriptor: its name after Triton 3.6, or the older name."""


class Buffers(NamedTuple):
    """The buffers of some steps.

    weights: [steps · blocks, features, columns]
    inputs:  [steps · blocks, rows, columns]
    full:    barriers that signal that the data of a step have arrived
    empty:   barriers that signal that all groups of warps have read them
    """

    weights: Any
    inputs: Any
    full: Any
    empty: Any


@gluon.jit
def new_buffers(
    weight,
    x,
    NUM_WEIGHTS: gl.constexpr,
    NUM_INPUTS: gl.constexpr,
    GROUPS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Buffers for STAGES steps of NUM_WEIGHTS and NUM_INPUTS blocks each, read by GROUPS groups of
    warps. weight, x: the descriptors that copy their blocks"""
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
    FEATURES: gl.constexpr = weight.block_shape[0]
    ROWS: gl.constexpr = x.block_shape[0]
    COLUMNS: gl.constexpr = weight.block_shape[1]
    weights: gl.constexpr = [STAGES * NUM_WEIGHTS, FEATURES, COLUMNS]
    inputs: gl.constexpr = [STAGES * NUM_INPUTS, ROWS, COLUMNS]
    return Buffers(
        gl.allocate_shared_memory(weight.dtype, weights, weight.layout),
        gl.allocate_shared_memory(x.dtype, inputs, x.layout),
        full,
        empty,
    )
