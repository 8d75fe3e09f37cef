"""Owns what one warp of the Hopper kernel of weights of 4 bits does: it has weights and inputs
copied to shared memory, some steps ahead of the warps that multiply them.

A step is 64 words of each feature, and so the inputs of 64 columns of each of four planes.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.extra import cuda

_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
"""Its name after Triton 3.6, and until then."""
BLOCK = gl.constexpr(64)
"""Rows of a program, features of a group of warps, and words of a step."""


class Buffers(NamedTuple):
    """In shared memory, of some steps.

    words:  int16 [steps · groups, features, words]
    inputs: bfloat16 [steps · planes, rows, words]
    full:   barriers: what a step reads is there
    empty:  barriers: all groups have read it
    """

    words: Any
    inputs: Any
    full: Any
    empty: Any


class Work(NamedTuple):
    """Steps of a program, counted from the first column; and its first row and feature."""

    first_step: Any
    num_steps: Any
    first_row: Any
    feature: Any


@gluon.jit
def new_buffers(words, x, GROUPS: gl.constexpr, STAGES: gl.constexpr):
    """For STAGES steps of GROUPS groups of warps; words and x: what blocks are copied from."""
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
    return Buffers(
        gl.allocate_shared_memory(gl.int16, [STAGES * GROUPS, BLOCK, BLOCK], words.layout),
        gl.allocate_shared_memory(gl.bfloat16, [STAGES * 4, BLOCK, BLOCK], x.layout),
        full,
        empty,
    )


@gluon.jit
def _copy_words(words, tile_rows, buffers, work, num_outputs, step, stage, WIDTH, GROUPS, GATED):
    """Ask for the weights of a step."""
    STEPS: gl.constexpr = WIDTH // BLOCK
    row = step // STEPS * tile_rows + work.feature
    for group in gl.static_range(GROUPS):
        source = row + group * BLOCK
        if GATED:
            source = row + group % 2 * BLOCK + group // 2 * num_outputs
        _load(
            words,
            [source, step % STEPS * BLOCK],
            buffers.full.index(stage),
            buffers.words.index(stage * GROUPS + group),
        )


@gluon.jit
def copy(
    words,
    x,
    tile_rows,
    buffers,
    work,
    num_outputs,
    WIDTH: gl.constexpr,
    GATED: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """What one warp does. Weights are asked for before the kernels before have ended."""
    STEPS: gl.constexpr = WIDTH // BLOCK
    STAGES: gl.constexpr = buffers.full.shape[0]
    GROUPS: gl.constexpr = buffers.words.shape[0] // STAGES
    NUM_BYTES: gl.constexpr = 2 * BLOCK * BLOCK * (GROUPS + 4)
    for done in range(gl.minimum(work.num_steps, STAGES)):
        mbarrier.expect(buffers.full.index(done), NUM_BYTES)
        step = work.first_step + done
        _copy_words(
            *(words, tile_rows, buffers, work, num_outputs, step, done, WIDTH, GROUPS, GATED)
        )
    if OVERLAP:
        cuda.gdc_wait()
    for done in range(work.num_steps):
        stage = done % STAGES
        step = work.first_step + done
        if done >= STAGES:
            mbarrier.wait(buffers.empty.index(stage), (done // STAGES - 1) & 1)
            mbarrier.expect(buffers.full.index(stage), NUM_BYTES)
            _copy_words(
                *(words, tile_rows, buffers, work, num_outputs, step, stage, WIDTH, GROUPS, GATED)
            )
        for plane in gl.static_range(4):
            column = step // STEPS * (4 * WIDTH) + plane * WIDTH + step % STEPS * BLOCK
            _load(
                x,
                [work.first_row, column],
                buffers.full.index(stage),
                buffers.inputs.index(stage * 4 + plane),
            )
