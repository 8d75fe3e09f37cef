"""Owns the parts of the kernel that prepares the delta rule's inputs."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.delta_rule import NORM_EPS

_EPS = tl.constexpr(NORM_EPS)


class InputSizes(NamedTuple):
    """Constants: groups, value heads in each, dimensions, tokens that the convolution reads,
    channels, open tokens of a pass, places of open tokens, slots, and strides between sequences of
    the places that were accepted and of those before each token."""

    groups: Any
    heads: Any
    key_dim: Any
    value_dim: Any
    window: Any
    channels: Any
    most_open: Any
    places: Any
    slots: Any
    accepted_stride: Any
    before_stride: Any


class InputStrides(NamedTuple):
    """Strides of the projections between tokens, groups and heads."""

    query: Any
    query_group: Any
    key: Any
    key_group: Any
    value: Any
    value_group: Any
    value_head: Any
    strength: Any
    strength_group: Any
    step: Any
    step_group: Any


class _Line(NamedTuple):
    """Pointers to one head's inputs of one sequence: to its tokens, a stride apart, to those before
    the last pass's open ones, to these, and to the places of the ones that were accepted; their
    number; and the head's number of channels."""

    tokens: Any
    stride: Any
    inputs: Any
    open_inputs: Any
    accepted: Any
    num_accepted: Any
    dim: Any


@triton.jit
def line_of(inputs, strides, state, accepted, own, turn, index, head, sizes):
    """A head's line, and the first of its channels. Heads are those of queries, then of keys, then
    of values."""
    group = tl.where(head < sizes.groups, head, head - sizes.groups)
    of_value = head - 2 * sizes.groups
    value = inputs.value + of_value // sizes.heads * strides.value_group
    value += of_value % sizes.heads * strides.value_head
    query, key = inputs.query + group * strides.query_group, inputs.key + group * strides.key_group
    tokens = tl.where(head < sizes.groups, query, tl.where(of_value < 0, key, value))
    stride = tl.where(of_value < 0, strides.key, strides.value)
    stride = tl.where(head < sizes.groups, strides.query, stride)
    value_channel = 2 * sizes.groups * sizes.key_dim + of_value * sizes.value_dim
    channel = tl.where(of_value < 0, head * sizes.key_dim, value_channel)
    read = turn * sizes.slots + own.slot
    line = _Line(
        tokens + own.start * stride,
        stride,
        state.inputs + read * (sizes.window - 1) * sizes.channels + channel,
        state.open_inputs + read * sizes.most_open * sizes.channels + channel,
        accepted + index * sizes.accepted_stride,
        own.num_before,
        tl.where(of_value < 0, sizes.key_dim, sizes.value_dim),
    )
    return line, channel


@triton.jit
def _load_inputs(line, place, dim, exists, sizes):
    """A head's inputs at some places; the negative ones lie before the sequence's tokens."""
    is_own = place >= 0
    past = place + line.num_accepted + sizes.window - 1
    opened = past - (sizes.window - 1)
    is_open = (place < 0) & (opened >= 0)
    at = tl.load(line.accepted + opened, mask=exists & is_open, other=0)
    row = tl.where(
        is_open, line.open_inputs + at * sizes.channels, line.inputs + past * sizes.channels
    )
    row = tl.where(is_own, line.tokens + place.to(tl.int64) * line.stride, row)
    exists = exists & (is_own | (line.num_accepted >= 0))
    mask = exists[:, None] & (dim < line.dim)[None, :]
    return tl.load(row[:, None] + dim[None, :], mask=mask, other=0)


@triton.jit
def convolved(line, convolution, before, token, own, index, dim, sizes):
    """The convolution of some tokens of a head with SiLU behind it, and the tokens' own inputs.

    convolution: pointer to the weights of the head's first channel
    """
    exists = token < own.length
    kernel = convolution + dim * sizes.window
    is_channel = dim < line.dim
    last = _load_inputs(line, token, dim, exists, sizes)
    weight = tl.load(kernel + sizes.window - 1, mask=is_channel, other=0).to(tl.float32)
    total = last.to(tl.float32) * weight[None, :]
    for back in tl.static_range(1, sizes.window):
        place = token - back
        if before is not None:
            row = index * sizes.before_stride + token * (sizes.window - 1)
            place = tl.load(before + row + back - 1, mask=exists, other=0)
        value = _load_inputs(line, place, dim, exists, sizes).to(tl.float32)
        weight = tl.load(kernel + sizes.window - 1 - back, mask=is_channel, other=0)
        total += value * weight.to(tl.float32)[None, :]
    return total * tl.sigmoid(total), last


@triton.jit
def store_inputs(
    line,
    last,
    state,
    channel,
    own,
    turn,
    token,
    tile,
    dim,
    sizes,
    NUM_OPEN,
    BLOCK_BEFORE: tl.constexpr,
):
    """The other copy of the state's inputs: those of open tokens among some, and, by a sequence's
    first program, those of the last tokens before the open ones."""
    num_final = tl.maximum(own.length - NUM_OPEN, 0)
    write = (1 - turn) * sizes.slots + own.slot
    is_channel = (dim < line.dim)[None, :]
    is_open = (token >= num_final) & (token < own.length)
    sink = state.open_inputs + write * sizes.most_open * sizes.channels + channel
    row = sink + (token - num_final) * sizes.channels
    tl.store(row[:, None] + dim[None, :], last, mask=is_open[:, None] & is_channel)
    if tile == 0:
        step = tl.arange(0, BLOCK_BEFORE)
        exists = step < sizes.window - 1
        place = num_final + step - (sizes.window - 1)
        before = _load_inputs(line, place, dim, exists, sizes)
        kept = state.inputs + write * (sizes.window - 1) * sizes.channels + channel
        kept = (kept + step * sizes.channels)[:, None] + dim[None, :]
        tl.store(kept, before, mask=exists[:, None] & is_channel)


@triton.jit
def store_gates(inputs, strides, weights, heads, own, token, of_value, sizes):
    """Decay and strength of one value head at some tokens."""
    exists = token < own.length
    row = own.start + token
    group, member = of_value // sizes.heads, of_value % sizes.heads
    sink = row * (sizes.groups * sizes.heads) + of_value
    source = inputs.step + group * strides.step_group + member
    step = tl.load(source + row * strides.step, mask=exists, other=0).to(tl.float32)
    step += tl.load(weights.step_bias + of_value).to(tl.float32)
    power = tl.exp(tl.minimum(step, 20.0))
    softplus = tl.where(step > 20.0, step, tl.log(1.0 + power))
    softplus = tl.where(power < 1e-3, power - 0.5 * power * power, softplus)
    rate = tl.load(weights.rates + of_value).to(tl.float32)
    tl.store(heads.decay + sink, rate * softplus, mask=exists)
    source = inputs.strength + group * strides.strength_group + member
    strength = tl.load(source + row * strides.strength, mask=exists, other=0).to(tl.float32)
    tl.store(heads.strength + sink, tl.sigmoid(strength), mask=exists)


@triton.jit
def store_values(values, heads, own, token, of_value, dim, sizes):
    """One value head of some tokens."""
    row = ((own.start + token) * (sizes.groups * sizes.heads) + of_value) * sizes.value_dim
    mask = (token < own.length)[:, None] & (dim < sizes.value_dim)[None, :]
    tl.store(heads.value + row[:, None] + dim[None, :], values, mask=mask)


@triton.jit
def store_key_heads(values, heads, state, own, token, head, dim, sizes, NUM_OPEN):
    """One head of queries or keys of some tokens, normed; open keys are kept in the state."""
    is_key = head >= sizes.groups
    group = tl.where(is_key, head - sizes.groups, head)
    values = values.to(heads.key.dtype.element_ty).to(tl.float32)
    values *= tl.rsqrt(tl.sum(values * values, 1) + _EPS)[:, None]
    values *= tl.where(is_key, 1.0, tl.rsqrt(sizes.key_dim * 1.0))
    rounded = values.to(heads.key.dtype.element_ty)
    exists, is_dim = token < own.length, (dim < sizes.key_dim)[None, :]
    row = ((own.start + token) * sizes.groups + group) * sizes.key_dim
    sink = tl.where(is_key, heads.key, heads.query) + row
    tl.store(sink[:, None] + dim[None, :], rounded, mask=exists[:, None] & is_dim)
    step = token - tl.maximum(own.length - NUM_OPEN, 0)
    place = own.slot * sizes.places + own.opened + step
    cell = state.open_keys + (place * sizes.groups + group) * sizes.key_dim
    is_open = is_key & (step >= 0) & exists
    tl.store(cell[:, None] + dim[None, :], rounded, mask=is_open[:, None] & is_dim)
