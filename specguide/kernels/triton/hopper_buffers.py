"""Owns where the Gluon kernels for Hopper GPUs keep what their products read: in shared memory,
filled some steps ahead by a warp that does nothing else."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

load_block = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
"""Its name after Triton 3.6, and until then."""


class Buffers(NamedTuple):
    """Of some steps.

    weights: [steps · blocks, features, columns]
    inputs:  [steps · blocks, rows, columns]
    full:    barriers: what a step reads is there
    empty:   barriers: all groups of warps have read it
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
    """For STAGES steps of so many blocks each, read by GROUPS groups of warps; weight and x: what
    blocks are copied from."""
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
