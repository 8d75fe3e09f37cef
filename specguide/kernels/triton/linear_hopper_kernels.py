"""Owns `linear_hopper_kernel`, a product of up to 64 rows with a large weight on a Hopper GPU, in
Gluon.

One warp starts copies of weights and rows to shared memory, as far ahead as there is room. Weights
do not depend on earlier kernels, so it requests them before these have ended: the memory is busy
even between two products. Four warps multiply what has arrived (wgmma).

Tensor cores keep too few digits for a long float8 sum, so they sum 128 columns at a time, and these
sums are added in float32.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra import cuda

from specguide.kernels.triton.hopper_buffers import load_block, new_buffers

TILE = gl.constexpr(64)
"""Number of features that are multiplied at a time: of gates, and as many of ups."""
_LINE = gl.constexpr(128)
"""Bytes of a feature or row that are copied at a time."""
_SCALED_FEATURES, _SCALED_COLUMNS = gl.constexpr(128), gl.constexpr(128)
"""Features and columns of a weight's block that has one scale."""


class Work(NamedTuple):
    """A program's steps, counted from the first column, and its first feature."""

    first_step: Any
    num_steps: Any
    feature: Any


class Sink(NamedTuple):
    """Where results go, and how they are scaled on the way.

    row_scales, scales: of rows and of features, or of their blocks, float32; None: there are none
    num_blocks:         number of blocks in a row
    bias:               bias of the features, or None
    output:             [splits, num_rows, num_outputs]
    largest:            the largest absolute gated outputs, float32 [num_rows, programs]; or None
    """

    row_scales: Any
    scales: Any
    num_blocks: Any
    bias: Any
    output: Any
    largest: Any
    num_rows: Any
    num_outputs: Any
    split: Any


@gluon.jit
def _copy_weights(weight, buffers, work, num_outputs, step, stage, TILES: gl.constexpr):
    COLUMNS: gl.constexpr = weight.block_shape[1]
    for tile in gl.static_range(TILES):
        load_block(
            weight,
            [work.feature + tile * num_outputs, step * COLUMNS],
            buffers.full.index(stage),
            buffers.weights.index(stage * TILES + tile),
        )


@gluon.jit
def _copy(weight, x, buffers, work, num_outputs, OVERLAP: gl.constexpr):
    """Start the copies of all steps' weights and rows, in one warp."""
    STAGES: gl.constexpr = buffers.full.shape[0]
    TILES: gl.constexpr = buffers.weights.shape[0] // STAGES
    COLUMNS: gl.constexpr = x.block_shape[1]
    NUM_BYTES: gl.constexpr = _LINE * (TILES * TILE + x.block_shape[0])
    for done in range(gl.minimum(work.num_steps, STAGES)):
        mbarrier.expect(buffers.full.index(done), NUM_BYTES)
        step = work.first_step + done
        _copy_weights(weight, buffers, work, num_outputs, step, done, TILES)
    if OVERLAP:
        cuda.gdc_wait()
    for done in range(work.num_steps):
        stage = done % STAGES
        step = work.first_step + done
        if done >= STAGES:
            mbarrier.wait(buffers.empty.index(stage), (done // STAGES - 1) & 1)
            mbarrier.expect(buffers.full.index(stage), NUM_BYTES)
            _copy_weights(weight, buffers, work, num_outputs, step, stage, TILES)
        inputs = buffers.inputs.index(stage)
        load_block(x, [0, step * COLUMNS], buffers.full.index(stage), inputs)


@gluon.jit
def _started(total, none, weights, inputs):
    """Start the product of one step: added to the total, float32 [features, rows], except for
    float8. none: zeros"""
    if inputs.dtype.primitive_bitwidth == 8:
        started = warpgroup_mma(weights, inputs, none, use_acc=False, is_async=True)
    else:
        started = warpgroup_mma(weights, inputs, total, is_async=True)
    return started


@gluon.jit
def _block_scales(work, sink, row, step):
    """The scales of a step's sums, by row: the scales of 128 columns of the weight times those of
    the rows."""
    place = work.feature // _SCALED_FEATURES * sink.num_blocks + step
    of_rows = gl.load(
        sink.row_scales + row * sink.num_blocks + step, mask=row < sink.num_rows, other=0
    )
    return of_rows * gl.load(sink.scales + place)


@gluon.jit
def _sums(buffers, work, sink, BLOCKS: gl.constexpr):
    """The sums of both tiles, float32 [features, rows]; with a single tile its sums and zeros."""
    STAGES: gl.constexpr = buffers.full.shape[0]
    TILES: gl.constexpr = buffers.weights.shape[0] // STAGES
    ROWS: gl.constexpr = buffers.inputs.shape[1]
    NUM_BITS: gl.constexpr = buffers.inputs.dtype.primitive_bitwidth
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 256 // NUM_BITS])
    none = gl.zeros((TILE, ROWS), gl.float32, mma)
    first, second = none, none
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(0, mma))
    if BLOCKS:
        factors = _block_scales(work, sink, row, work.first_step)
    for done in range(work.num_steps):
        stage = done % STAGES
        mbarrier.wait(buffers.full.index(stage), (done // STAGES) & 1)
        inputs = buffers.inputs.index(stage).permute((1, 0))
        one = _started(first, none, buffers.weights.index(stage * TILES), inputs)
        if TILES == 2:
            other = _started(second, none, buffers.weights.index(stage * TILES + 1), inputs)
            one, other = warpgroup_mma_wait(0, deps=[one, other])
            second = second + other if NUM_BITS == 8 else other
        else:
            one = warpgroup_mma_wait(0, deps=[one])
        mbarrier.arrive(buffers.empty.index(stage))
        if BLOCKS:
            one *= factors.expand_dims(0)
            then = work.first_step + gl.minimum(done + 1, work.num_steps - 1)
            factors = _block_scales(work, sink, row, then)
        first = first + one if NUM_BITS == 8 else one
    return first, second


@gluon.jit
def _finished(total, sink, row, feature, BLOCKS: gl.constexpr):
    """A tile's sums times their scales, plus the bias, which the first split adds. row, feature:
    indices in the output and in the weight"""
    if sink.scales is not None and not BLOCKS:
        row_scales = gl.load(sink.row_scales + row, mask=row < sink.num_rows, other=0)
        total *= gl.load(sink.scales + feature).expand_dims(1) * row_scales.expand_dims(0)
    if sink.bias is not None:
        bias = gl.load(sink.bias + feature).to(gl.float32)
        total += gl.where(sink.split == 0, bias, 0.0).expand_dims(1)
    return total


@gluon.jit
def _store(total, sink, row, feature):
    line = (sink.split * sink.num_rows + row).to(gl.int64) * sink.num_outputs
    target = sink.output + line.expand_dims(0) + feature.expand_dims(1)
    exists = (row < sink.num_rows).expand_dims(0) & (feature < sink.num_outputs).expand_dims(1)
    gl.store(target, total.to(sink.output.dtype.element_ty), mask=exists)


@gluon.jit
def _activated(gate, up, sink, row):
    """silu(gate) · up, both rounded before; stores the largest absolute value of each row."""
    dtype: gl.constexpr = sink.output.dtype.element_ty
    gate = gate.to(dtype).to(gl.float32)
    activated = gate / (1.0 + gl.exp(-gate)) * up.to(dtype).to(gl.float32)
    most = gl.max(gl.abs(activated.to(dtype).to(gl.float32)), 0)
    target = sink.largest + row * gl.num_programs(0) + gl.program_id(0)
    gl.store(target, most, mask=row < sink.num_rows)
    return activated


@gluon.jit
def _multiply(
    buffers, work, sink, GATED: gl.constexpr, BLOCKS: gl.constexpr, OVERLAP: gl.constexpr
):
    """Multiply and store, as four warps."""
    ROWS: gl.constexpr = buffers.inputs.shape[1]
    if OVERLAP:
        cuda.gdc_wait()
    first, second = _sums(buffers, work, sink, BLOCKS)
    layout: gl.constexpr = first.type.layout
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(0, layout))
    feature = work.feature + gl.arange(0, TILE, layout=gl.SliceLayout(1, layout))
    source = gl.minimum(feature, sink.num_outputs - 1)
    total = _finished(first, sink, row, source, BLOCKS)
    if GATED:
        up = _finished(second, sink, row, source + sink.num_outputs, BLOCKS)
        total = _activated(total, up, sink, row)
    _store(total, sink, row, feature)


@gluon.jit(do_not_specialize=["num_rows"])
def linear_hopper_kernel(
    weight,
    x,
    row_scales,
    scales,
    bias,
    output,
    largest,
    num_rows,
    num_outputs,
    ROW_LEN: gl.constexpr,
    NUM_SPLITS: gl.constexpr,
    GATED: gl.constexpr,
    BLOCKS: gl.constexpr,
    STAGES: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """The product of all rows with 64 features. GATED: 64 features of ups, multiplied with their
    activated gates. BLOCKS: scales are those of 128 columns. weight, x: descriptors of blocks of 64
    features, and of all rows
    Others: see `Sink`.
    """
    if OVERLAP:
        cuda.gdc_launch_dependents()
    STEPS: gl.constexpr = ROW_LEN // x.block_shape[1] // NUM_SPLITS
    split = gl.program_id(1)
    work = Work(split * STEPS, STEPS, gl.program_id(0) * TILE)
    NUM_BLOCKS: gl.constexpr = ROW_LEN // _SCALED_COLUMNS
    scaling = row_scales, scales, NUM_BLOCKS
    sink = Sink(*scaling, bias, output, largest, num_rows, num_outputs, split)
    buffers = new_buffers(weight, x, 2 if GATED else 1, 1, 1, STAGES)
    gl.warp_specialize(
        [
            (_multiply, (buffers, work, sink, GATED, BLOCKS, OVERLAP)),
            (_copy, (weight, x, buffers, work, num_outputs, OVERLAP)),
        ],
        [1],
        [24],
    )
