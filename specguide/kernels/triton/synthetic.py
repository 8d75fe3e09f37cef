"""Owns the Triton kernel of synthetic acceptance, accept_by_pattern.

Its twin is in `sampling.synthetic`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.triton.bitmask import RowArguments


@triton.jit
def _allows(masks, node, draft, exists):
    """Whether the rows of some nodes allow the drafts that follow them, as far as there are any."""
    if masks.bitmask is not None:
        row = tl.load(masks.ids + node * masks.ids_stride, mask=exists, other=0)
        is_guided = tl.load(masks.guided + row, mask=exists, other=0) != 0
        word = row * masks.bitmask_stride + (draft >> 5)
        bits = tl.load(masks.bitmask + word, mask=exists & is_guided, other=-1)
        exists = exists & ((bits >> (draft & 31)) & 1 != 0)
    return exists


@triton.jit(do_not_specialize=["num_requests"])
def _accept_kernel(
    target_tokens,
    slots,
    state,
    pattern,
    masks,
    num_requests,
    PERIOD: tl.constexpr,
    NUM_SLOTS: tl.constexpr,
    NUM_NODES: tl.constexpr,
    NUM_SLOT_NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Accept for all requests, in one program, which also counts the iteration."""
    request = tl.arange(0, BLOCK)
    exists = request < num_requests
    iteration = (tl.load(pattern.iteration) + 1) % PERIOD
    slot = tl.load(slots + request, mask=exists, other=0)
    most = tl.load(pattern.num_accepted + iteration * NUM_SLOTS + slot, mask=exists, other=0)
    is_late = tl.load(state.late + slot, mask=exists, other=1) != 0
    is_active = tl.load(state.active + slot, mask=exists, other=0) != 0
    is_accepted = exists
    for place in tl.static_range(1, NUM_NODES):
        node = request * NUM_NODES + place - 1
        token = state.tokens + slot * NUM_SLOT_NODES + place
        draft = tl.load(token, mask=exists, other=-1)
        is_there = is_accepted & (place <= most) & (draft >= 0)
        is_accepted = _allows(masks, node, draft, is_there)
        tl.store(target_tokens + node, draft, mask=is_accepted)
        is_kept = is_accepted | is_late | (is_active == 0)
        tl.store(token, -1, mask=exists & (is_kept == 0))
    tl.debug_barrier()  # all threads have read the iteration's number
    tl.store(pattern.iteration, iteration)


def accept_by_pattern(
    target_tokens: Tensor, slots: Tensor, state: Any, pattern: Any, rows: BitmaskRows | None
) -> None:
    """See sampling.synthetic.accept_by_pattern."""
    num_requests, num_nodes = target_tokens.shape
    period, num_slots = pattern.num_accepted.shape
    _accept_kernel[(1,)](
        target_tokens,
        slots,
        state._replace(active=state.active.view(torch.uint8)),
        pattern,
        RowArguments.of(rows),
        num_requests,
        PERIOD=period,
        NUM_SLOTS=num_slots,
        NUM_NODES=num_nodes,
        NUM_SLOT_NODES=state.tokens.shape[1],
        BLOCK=triton.next_power_of_2(num_requests),
        num_warps=4,
    )
