"""Owns the Triton kernels that write new drafts into their slots.

Their twins are in `sampling.accept`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _load_chains(num_accepted, slots, num_chains, BLOCK: tl.constexpr):
    """A program's chains [BLOCK]: their indices, whether they exist and are held, their slots."""
    chain = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = chain < num_chains
    is_held = tl.load(num_accepted + chain, mask=exists, other=-1) < 0
    slot = tl.load(slots + chain, mask=exists, other=0)
    return chain, exists, is_held, slot


@triton.jit(do_not_specialize=["node", "num_chains"])
def _store_kernel(
    drafts,
    limits,
    num_accepted,
    slots,
    tokens,
    node,
    num_chains,
    NUM_SLOT_NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    chain, exists, is_held, slot = _load_chains(num_accepted, slots, num_chains, BLOCK)
    is_within = exists & (tl.load(limits + slot, mask=exists, other=0) >= node)
    draft = tl.load(drafts + chain, mask=is_within, other=-1)
    tl.store(tokens + slot * NUM_SLOT_NODES + node, draft, mask=exists & (is_held == 0))


def store_drafts(
    drafts: Tensor, node: int, limits: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """See sampling.accept.store_drafts."""
    block = 128
    _store_kernel[(triton.cdiv(len(drafts), block),)](
        drafts,
        limits,
        num_accepted,
        slots,
        tokens,
        node,
        len(drafts),
        NUM_SLOT_NODES=tokens.shape[1],
        BLOCK=block,
    )


@triton.jit(do_not_specialize=["num_chains"])
def _append_kernel(
    drafts,
    chain_len,
    num_accepted,
    slots,
    tokens,
    num_chains,
    NUM_SLOT_NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    chain, exists, is_held, slot = _load_chains(num_accepted, slots, num_chains, BLOCK)
    node = tl.load(chain_len + slot, mask=exists, other=NUM_SLOT_NODES) + 1
    draft = tl.load(drafts + chain, mask=exists, other=-1)
    tl.store(
        tokens + slot * NUM_SLOT_NODES + node,
        draft,
        mask=exists & (is_held == 0) & (node < NUM_SLOT_NODES),
    )


def append_drafts(
    drafts: Tensor, chain_len: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """See sampling.accept.append_drafts."""
    block = 128
    _append_kernel[(triton.cdiv(len(drafts), block),)](
        drafts,
        chain_len,
        num_accepted,
        slots,
        tokens,
        len(drafts),
        NUM_SLOT_NODES=tokens.shape[1],
        BLOCK=block,
    )
