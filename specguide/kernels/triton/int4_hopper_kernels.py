"""Owns `int4_hopper_kernel`, a product with weights of 4 bits on a Hopper GPU, in Gluon.

Triton's compiler does not find this schedule by itself. One warp starts copies of weights and
inputs to shared memory, some steps ahead, and groups of four warps wait for the data. A group
converts its weights to floats in registers, where the tensor cores read them (wgmma); the inputs,
which all groups share, are read from shared memory.

A step is 64 words of each feature, and so the inputs of 64 columns of each of four planes. Weights
are scaled, and rounded to bfloat16, before they are multiplied.
"""

# mypy: allow-untyped-defs
# ruff: noqa: SIM102 — Gluon evaluates both sides of an `and`

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.language.extra import cuda

from specguide.kernels.triton.hopper_buffers import new_buffers
from specguide.kernels.triton.int4_hopper_copies import BLOCK, Work, copy
from specguide.kernels.triton.int4_planes import FORMS, UNPACK

_UNPACK = gl.constexpr(UNPACK[torch.bfloat16])
_FORM = gl.constexpr(FORMS[torch.bfloat16])


class Scales(NamedTuple):
    """Scales. of_groups: pointer, [groups, features]; group_len: stride between groups"""

    of_groups: Any
    group_len: Any


class Sink(NamedTuple):
    """Where results go, output [splits, num_rows, num_outputs], and the bias that is added to
    them."""

    bias: Any
    output: Any
    num_rows: Any
    num_outputs: Any
    split: Any


class Handover(NamedTuple):
    """How ups get from the groups that multiply them to the groups with the gates: float32 [pairs,
    features, rows] in shared memory, and a barrier for each pair."""

    sums: Any
    ready: Any


@gluon.jit
def _scale(scales, start, feature, GROUP: gl.constexpr, LAST: gl.constexpr):
    group = gl.minimum(start // GROUP, LAST)
    return gl.load(scales.of_groups + group * scales.group_len + feature)


@gluon.jit
def _scales_of_planes(scales, step, feature, WIDTH, GROUP, LAST):
    """The scales of some features for the four planes of a step."""
    start = step // (WIDTH // BLOCK) * (4 * WIDTH)
    return (
        _scale(scales, start, feature, GROUP, LAST),
        _scale(scales, start + WIDTH, feature, GROUP, LAST),
        _scale(scales, start + 2 * WIDTH, feature, GROUP, LAST),
        _scale(scales, start + 3 * WIDTH, feature, GROUP, LAST),
    )


@gluon.jit
def _weights(words, scale, PLANE: gl.constexpr):
    """The weights of a plane, scaled, bfloat16; in units of the form (see PlaneForm)."""
    UNIT: gl.constexpr = _FORM[0]
    FACTOR: gl.constexpr = _FORM[1][PLANE]
    rounded = scale.to(gl.bfloat16).to(gl.float32)
    factor = (rounded * FACTOR).to(gl.bfloat16)
    offset = (rounded * (-8.0 * UNIT)).to(gl.bfloat16)
    return gl.inline_asm_elementwise(
        _UNPACK[PLANE],
        "=r,r,r,r",
        [words, factor.expand_dims(1), offset.expand_dims(1)],
        dtype=gl.bfloat16,
        is_pure=True,
        pack=2,
    )


@gluon.jit
def _sums(
    buffers,
    scales,
    work,
    first_feature,
    WHICH: gl.constexpr,
    WIDTH: gl.constexpr,
    GROUP: gl.constexpr,
    LAST: gl.constexpr,
):
    """The sums of a group of four warps, float32 [features, rows]. WHICH: number of the group

    At most one product is in flight while the next plane is converted to floats. None is in flight
    at the end of a step: otherwise the assembler would make each product wait for the one before.
    """
    STAGES: gl.constexpr = buffers.full.shape[0]
    GROUPS: gl.constexpr = buffers.weights.shape[0] // STAGES
    FEATURES: gl.constexpr = buffers.weights.shape[1]
    ROWS: gl.constexpr = buffers.inputs.shape[1]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    feature = first_feature + gl.arange(0, FEATURES, layout=gl.SliceLayout(1, operand))
    total = gl.zeros((FEATURES, ROWS), gl.float32, mma)
    scale = _scales_of_planes(scales, work.first_step, feature, WIDTH, GROUP, LAST)
    for done in range(work.num_steps):
        stage = done % STAGES
        mbarrier.wait(buffers.full.index(stage), (done // STAGES) & 1)
        sums = warpgroup_mma_init(total)
        words = buffers.weights.index(stage * GROUPS + WHICH).load(operand)
        for plane in gl.static_range(4):
            inputs = buffers.inputs.index(stage * 4 + plane).permute((1, 0))
            weights = _weights(words, scale[plane], plane)
            sums = warpgroup_mma(weights, inputs, sums, is_async=True)
            sums = warpgroup_mma_init(warpgroup_mma_wait(1, deps=[sums]))
        step = work.first_step + gl.minimum(done + 1, work.num_steps - 1)
        scale = _scales_of_planes(scales, step, feature, WIDTH, GROUP, LAST)
        total = warpgroup_mma_wait(0, deps=[sums])
        mbarrier.arrive(buffers.empty.index(stage))
    UNIT: gl.constexpr = _FORM[0]
    return total * (1.0 / UNIT)


@gluon.jit
def _with_bias(total, bias, split, feature):
    if bias is not None:
        if split == 0:
            total += gl.load(bias + feature).to(gl.float32).expand_dims(1)
    return total


@gluon.jit
def _multiply(
    buffers,
    scales,
    work,
    sink,
    handover,
    WHICH: gl.constexpr,
    WIDTH: gl.constexpr,
    GROUP: gl.constexpr,
    LAST: gl.constexpr,
    GATED: gl.constexpr,
):
    """Multiply and store, as a group of four warps. GATED: two of four groups multiply ups"""
    PAIR: gl.constexpr = WHICH % 2 if GATED else WHICH
    IS_UP: gl.constexpr = GATED and WHICH >= 2
    FEATURES: gl.constexpr = buffers.weights.shape[1]
    ROWS: gl.constexpr = buffers.inputs.shape[1]
    place = work.feature + PAIR * FEATURES
    first_feature = place
    if IS_UP:
        first_feature = place + sink.num_outputs
    total = _sums(buffers, scales, work, first_feature, WHICH, WIDTH, GROUP, LAST)
    layout: gl.constexpr = total.type.layout
    within = gl.arange(0, FEATURES, layout=gl.SliceLayout(1, layout))
    total = _with_bias(total, sink.bias, sink.split, first_feature + within)
    if IS_UP:
        handover.sums.index(PAIR).store(total)
        mbarrier.arrive(handover.ready.index(PAIR))
    else:
        if GATED:
            mbarrier.wait(handover.ready.index(PAIR), 0)
            total = total / (1.0 + gl.exp(-total)) * handover.sums.index(PAIR).load(layout)
        row = work.first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(0, layout))
        line = (sink.split * sink.num_rows + row).to(gl.int64) * sink.num_outputs
        target = sink.output + line.expand_dims(0) + (place + within).expand_dims(1)
        exists = (row < sink.num_rows).expand_dims(0)
        gl.store(target, total.to(sink.output.dtype.element_ty), mask=exists)


@gluon.jit
def _prefetch_scales(scales, first_group, feature, LAST: gl.constexpr):
    """Prefetch the scales of a program's first 64 groups (or all) for 128 features into the L2
    cache, in lines of 64."""
    at = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    group = gl.minimum(first_group + at % 64, LAST)
    gl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [scales.of_groups + group * scales.group_len + feature + at // 64 * 64],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def _new_handover(FEATURES: gl.constexpr, ROWS: gl.constexpr):
    """A handover in shared memory."""
    layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    sums = gl.allocate_shared_memory(gl.float32, [2, FEATURES, ROWS], layout)
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for pair in gl.static_range(2):
        mbarrier.init(ready.index(pair), count=1)
    return Handover(sums, ready)


@gluon.jit(do_not_specialize=["num_rows"])
def int4_hopper_kernel(
    words,
    x,
    scales,
    bias,
    output,
    num_rows,
    num_outputs,
    tile_rows,
    group_len,
    IN_FEATURES: gl.constexpr,
    GROUP: gl.constexpr,
    WIDTH: gl.constexpr,
    NUM_SPLITS: gl.constexpr,
    GATED: gl.constexpr,
    GROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
    OVERLAP: gl.constexpr,
):
    """The product of some rows, as many as the blocks of x have, with the features of GROUPS blocks
    of words. GATED: half of these are gates; the others are ups, which are multiplied with the
    activated gates.

    words, x:  descriptors of blocks of [features, 64] and [rows, 64]
    tile_rows: lines between the first line of words of a tile and that of the next
    REGISTERS: registers of a thread that multiplies; the first group has the rest
    """
    if OVERLAP:
        cuda.gdc_launch_dependents()
    FEATURES: gl.constexpr = words.block_shape[0]
    ROWS: gl.constexpr = x.block_shape[0]
    OUTPUTS: gl.constexpr = GROUPS * FEATURES // (2 if GATED else 1)
    LAST: gl.constexpr = (IN_FEATURES - 1) // GROUP
    SHARE: gl.constexpr = (IN_FEATURES + 4 * WIDTH - 1) // (4 * WIDTH) // NUM_SPLITS
    STEPS: gl.constexpr = SHARE * (WIDTH // BLOCK)
    split = gl.program_id(2)
    work = Work(split * STEPS, STEPS, gl.program_id(0) * ROWS, gl.program_id(1) * OUTPUTS)
    source = Scales(scales, group_len)
    sink = Sink(bias, output, num_rows, num_outputs, split)
    buffers = new_buffers(words, x, GROUPS, 4, GROUPS, STAGES)
    handover = ()
    if GATED:
        handover = _new_handover(FEATURES, ROWS)
    first_group = split * SHARE * (4 * WIDTH) // GROUP
    for part in gl.static_range(OUTPUTS // 128):
        _prefetch_scales(source, first_group, work.feature + part * 128, LAST)
        if GATED:
            _prefetch_scales(source, first_group, work.feature + num_outputs + part * 128, LAST)
    if GROUPS == 4:
        gl.warp_specialize(
            [
                (_multiply, (buffers, source, work, sink, handover, 0, WIDTH, GROUP, LAST, GATED)),
                (_multiply, (buffers, source, work, sink, handover, 1, WIDTH, GROUP, LAST, GATED)),
                (_multiply, (buffers, source, work, sink, handover, 2, WIDTH, GROUP, LAST, GATED)),
                (_multiply, (buffers, source, work, sink, handover, 3, WIDTH, GROUP, LAST, GATED)),
                (copy, (words, x, tile_rows, buffers, work, num_outputs, WIDTH, GATED, OVERLAP)),
            ],
            [4, 4, 4, 1],
            [REGISTERS, REGISTERS, REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_multiply, (buffers, source, work, sink, handover, 0, WIDTH, GROUP, LAST, GATED)),
                (_multiply, (buffers, source, work, sink, handover, 1, WIDTH, GROUP, LAST, GATED)),
                (copy, (words, x, tile_rows, buffers, work, num_outputs, WIDTH, GATED, OVERLAP)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
