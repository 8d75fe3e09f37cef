"""Owns the Triton masked_argmax: one pass over the logits, split over programs if there are few
rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.triton.argmax_kernels import Parts, argmax_kernel, combine_kernel
from specguide.kernels.triton.bitmask import RowArguments
from specguide.kernels.triton.device import num_multiprocessors

MOST_SPLITS = 64
"""Maximum programs per row. Their number is not a constant of a kernel, which would be compiled
again for each number."""


@dataclass(frozen=True)
class Launch:
    """The shape of a launch: rows per program, columns per tile, programs per row, columns per
    program, warps per program."""

    rows: int
    tile: int
    num_splits: int
    share: int
    num_warps: int


def masked_argmax(
    logits: Tensor,
    rows: BitmaskRows | None,
    target_ids: Tensor | None = None,
) -> Tensor:
    """See reference.masked_argmax."""
    num_rows = logits.shape[0]
    masks = RowArguments.of(rows)
    launch = choose_launch(num_rows, logits.shape[1], logits.device, pruned=target_ids is not None)
    output = torch.empty(num_rows, dtype=torch.int32, device=logits.device)
    parts = launch_argmax(logits, masks, target_ids, launch, output)
    if parts is not None:
        combine_kernel[(num_rows,)](
            masks,
            target_ids,
            output,
            parts,
            launch.num_splits,
            BLOCK=MOST_SPLITS,
            num_warps=1,
        )
    return output


def launch_argmax(
    logits: Tensor,
    masks: RowArguments,
    target_ids: Tensor | None,
    launch: Launch,
    output: Tensor | None,
) -> Parts | None:
    """What each split found; None if there is only one split and `output`, int32 [n], is given and
    filled."""
    num_rows, vocab_size = logits.shape
    parts = None
    if launch.num_splits > 1 or output is None:
        parts = _empty_parts(num_rows, launch.num_splits, logits.device)
    # A thread loads 16 bytes of logits or of ids. Both use the same number of lanes; otherwise the
    # tiles would have to be exchanged between threads.
    lanes = 4 if target_ids is not None else 16 // logits.element_size()
    argmax_kernel[(triton.cdiv(num_rows, launch.rows), launch.num_splits)](
        logits,
        masks,
        target_ids,
        output,
        parts,
        num_rows,
        vocab_size,
        logits.stride(0),
        launch.share,
        launch.num_splits,
        ROWS=launch.rows,
        GROUPS=launch.tile // lanes,
        LANES=lanes,
        num_warps=launch.num_warps,
    )
    return parts


def _empty_parts(num_rows: int, num_splits: int, device: torch.device) -> Parts:
    dtypes = torch.float32, torch.int32, torch.int32
    shape = num_rows, num_splits
    return Parts(*(torch.empty(shape, dtype=dtype, device=device) for dtype in dtypes))


def choose_launch(num_rows: int, vocab_size: int, device: torch.device, *, pruned: bool) -> Launch:
    """The launch for logits of this shape. Rows over a draft vocabulary share programs as long as
    there are enough programs to fill the GPU."""
    num_places = num_multiprocessors(device)
    rows = next((rows for rows in (4, 2) if pruned and num_rows >= rows * num_places * 0.9), 1)
    num_warps = 16 if rows == 4 else 8
    tile = 2048 if pruned else 4096
    num_tiles = triton.cdiv(vocab_size, tile)
    num_splits = (
        1 if rows > 1 else max(1, min(num_tiles, 4 * num_places // max(num_rows, 1), MOST_SPLITS))
    )
    num_splits = 1 << num_splits.bit_length() - 1
    share = triton.cdiv(num_tiles, num_splits) * tile
    return Launch(rows, tile, triton.cdiv(vocab_size, share), share, num_warps)
