"""Owns the Triton kernel that prepares the delta rule's inputs, delta_heads."""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl

from specguide.kernels.delta_rule import (
    DeltaHeads,
    DeltaInputs,
    DeltaPass,
    DeltaState,
    DeltaWeights,
)
from specguide.kernels.triton.delta_inputs_kernels import (
    InputSizes,
    InputStrides,
    convolved,
    line_of,
    store_gates,
    store_inputs,
    store_key_heads,
    store_values,
)
from specguide.kernels.triton.delta_places import (
    UNALIGNED,
    block_sequences,
    check_contiguous,
    num_tiles,
    sequence_at,
    tile_at,
)
from specguide.kernels.triton.device import await_results, overlap

_TILE = 32
"""Tokens of one sequence that a program computes, at most."""


@triton.jit(do_not_specialize=["num_sequences"], do_not_specialize_on_alignment=UNALIGNED)
def _heads_kernel(
    inputs,
    strides,
    weights,
    state,
    heads,
    slots,
    bounds,
    opened,
    turns,
    num_accepted,
    accepted,
    before,
    num_sequences,
    sizes,
    NUM_OPEN: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK_BEFORE: tl.constexpr,
    BLOCK_SEQUENCES: tl.constexpr,
    TILE: tl.constexpr,
    IS_ONE_TILE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One head of some tokens of one sequence."""
    await_results(OVERLAP)
    index, tile = tl.program_id(0), 0
    if not IS_ONE_TILE:
        index, tile = tile_at(bounds, num_sequences, index, TILE, BLOCK_SEQUENCES)
        if index >= num_sequences:
            return
    own = sequence_at(slots, bounds, opened, num_accepted, index)
    if (own.slot < 0) | (own.length <= 0):
        return
    head = tl.program_id(1)
    token, dim = tile * TILE + tl.arange(0, TILE), tl.arange(0, BLOCK_DIM)
    turn = tl.load(turns + index)
    line, channel = line_of(inputs, strides, state, accepted, own, turn, index, head, sizes)
    convolution = weights.convolution + channel * sizes.window
    values, last = convolved(line, convolution, before, token, own, index, dim, sizes)
    store_inputs(
        line, last, state, channel, own, turn, token, tile, dim, sizes, NUM_OPEN, BLOCK_BEFORE
    )
    if head < 2 * sizes.groups:
        store_key_heads(values, heads, state, own, token, head, dim, sizes, NUM_OPEN)
    else:
        of_value = head - 2 * sizes.groups
        store_values(values, heads, own, token, of_value, dim, sizes)
        store_gates(inputs, strides, weights, heads, own, token, of_value, sizes)


def delta_heads(
    inputs: DeltaInputs, weights: DeltaWeights, state: DeltaState, own: DeltaPass
) -> DeltaHeads:
    """See delta_rule.delta_heads."""
    num_tokens, groups, key_dim = inputs.query.shape
    each, value_dim = inputs.value.shape[2:]
    heads = _empty_heads(inputs)
    check_contiguous(
        inputs=state.inputs,
        open_inputs=state.open_inputs,
        open_keys=state.open_keys,
        convolution=weights.convolution,
    )
    tile = min(_TILE, triton.next_power_of_2(own.max_len))
    num_programs = num_tiles(own, num_tokens, tile)
    block_dim = triton.next_power_of_2(max(key_dim, value_dim))
    _heads_kernel[(num_programs, 2 * groups + groups * each)](
        inputs,
        _strides(inputs),
        weights,
        state,
        heads,
        own.slots,
        own.bounds,
        own.opened,
        own.turns,
        *own.accepted,
        own.before,
        len(own.slots),
        _sizes(inputs, state, own),
        NUM_OPEN=own.num_open,
        BLOCK_DIM=block_dim,
        BLOCK_BEFORE=triton.next_power_of_2(state.inputs.shape[2]),
        BLOCK_SEQUENCES=block_sequences(own),
        TILE=tile,
        IS_ONE_TILE=own.max_len <= tile,
        num_warps=max(1, min(4, tile * block_dim // 512)),
        **overlap(inputs.device),
    )
    return heads


def _empty_heads(inputs: DeltaInputs) -> DeltaHeads:
    num_tokens, groups, each, value_dim = inputs.value.shape
    dtype, device = inputs.query.dtype, inputs.device
    query, key = (torch.empty(inputs.query.shape, dtype=dtype, device=device) for _ in range(2))
    value = torch.empty(num_tokens, groups * each, value_dim, dtype=dtype, device=device)
    decay, strength = (
        torch.empty(value.shape[:2], dtype=torch.float32, device=device) for _ in range(2)
    )
    return DeltaHeads(query, key, value, decay, strength)


def _sizes(inputs: DeltaInputs, state: DeltaState, own: DeltaPass) -> InputSizes:
    _, groups, each, value_dim = inputs.value.shape
    _, num_slots, num_before, channels = state.inputs.shape
    sizes = (
        *(groups, each, inputs.key.shape[2], value_dim, num_before + 1, channels),
        *(state.open_inputs.shape[2], state.open_keys.shape[1], num_slots),
        own.accepted.places.stride(0),
        0 if own.before is None else own.before.stride(0),
    )
    return InputSizes(*map(tl.constexpr, sizes))


def _strides(inputs: DeltaInputs) -> InputStrides:
    query, key, value, strength, step = (part.stride() for part in inputs)
    return InputStrides(*query[:2], *key[:2], *value[:3], *strength[:2], *step[:2])
