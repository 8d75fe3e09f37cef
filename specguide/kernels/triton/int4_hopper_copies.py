"""Owns the work of the copying warp in the Hopper kernel for 4-bit weights: it starts the copies of
weights and inputs to shared memory, some steps ahead of the warps that multiply them.

A step is 64 words of each feature, and so the inputs of 64 columns of each of four planes.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.language.extra import cuda

from specguide.kernels.triton.hopper_buffers import load_block

BLOCK = gl.constexpr(64)
"""Number of words of a feature in a step."""


class Work(NamedTuple):
    """A program's steps, counted from the first column, its first row and its first feature."""

    first_step: Any
    num_steps: Any
    first_row: Any
    feature: Any


@gluon.jit
def _copy_words(words, tile_rows, buffers, work, num_outputs, step, stage, WIDTH, GROUPS, GATED):
    """Start the copies of a step's weights."""
    STEPS: gl.constexpr = WIDTH // BLOCK
    FEATURES: gl.constexpr = buffers.weights.shape[1]
    row = step // STEPS * tile_rows + work.feature
    for group in gl.static_range(GROUPS):
        source = row + group * FEATURES
        if GATED:
            source = row + group % 2 * FEATURES + group // 2 * num_outputs
        load_block(
            words,
            [source, step % STEPS * BLOCK],
            buffers.full.index(stage),
            buffers.weights.index(stage * GROUPS + group),
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
    """Start the copies of all steps' weights and inputs, in one warp. Weights are requested before
    the earlier kernels have ended."""
    STEPS: gl.constexpr = WIDTH // BLOCK
    STAGES: gl.constexpr = buffers.full.shape[0]
    GROUPS: gl.constexpr = buffers.weights.shape[0] // STAGES
    FEATURES: gl.constexpr = buffers.weights.shape[1]
    ROWS: gl.constexpr = buffers.inputs.shape[1]
    NUM_BYTES: gl.constexpr = 2 * BLOCK * (GROUPS * FEATURES + 4 * ROWS)
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
            load_block(
                x,
                [work.first_row, column],
                buffers.full.index(stage),
                buffers.inputs.index(stage * 4 + plane),
            )
