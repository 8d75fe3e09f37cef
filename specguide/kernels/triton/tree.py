"""Owns the Triton kernels of the bookkeeping around a pass over draft trees. Each does in one
launch what took dozens.

Their twins are in `cache.tensors` and `sampling.accept`, the owners of that state.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.nodes import cache_slot


@triton.jit
def _move_kernel(
    memory,
    nodes,
    start,
    block_table,
    layer_stride,
    nodes_stride,
    start_stride,
    DEPTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_PAGES: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
):
    """Move one tree's keys, or values, of one layer. A thread moves the same columns of all nodes,
    in order, so no node is overwritten before it is read."""
    tree, layer = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    cells, first = memory + layer * layer_stride + column, tl.load(start + tree * start_stride)
    for index in range(DEPTH):
        node = tl.load(nodes + tree * nodes_stride + index)
        source = cache_slot(
            block_table + tree * NUM_PAGES, first + node, node >= 0, NUM_PAGES, PAGE_SIZE
        )
        destination = cache_slot(
            block_table + tree * NUM_PAGES, first + 1 + index, node >= 0, NUM_PAGES, PAGE_SIZE
        )
        is_moved = (column < SIZE) & (source >= 0) & (destination >= 0) & (source != destination)
        values = tl.load(cells + source * SIZE, mask=is_moved, other=0)
        tl.store(cells + destination * SIZE, values, mask=is_moved)


def move_keys(memory: Tensor, nodes: Tensor, start: Tensor, block_table: Tensor) -> None:
    """See cache.tensors.move_keys."""
    layers = memory.view(-1, *memory.shape[2:])
    if layers.element_size() == 1:  # the kernel only moves bytes
        layers = layers.view(torch.uint8)
    size = memory.shape[4] * memory.shape[5]
    block = min(triton.next_power_of_2(size), 1024)
    _move_kernel[(len(nodes), len(layers), triton.cdiv(size, block))](
        layers,
        nodes,
        start,
        block_table,
        layers.stride(0),
        nodes.stride(0),
        start.stride(0),
        DEPTH=nodes.shape[1],
        SIZE=size,
        BLOCK=block,
        NUM_PAGES=block_table.shape[1],
        PAGE_SIZE=memory.shape[3],
    )
