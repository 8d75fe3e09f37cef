"""Owns the Triton norms: rms_norm, norm_into for rows that are looked up by index, add_rms_norm,
which also sums its input, and those that round their output to float8."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.float8 import BLOCK as FLOAT8_GROUP
from specguide.kernels.float8 import Float8Rows, Float8Scaling
from specguide.kernels.peers import Peers, rows_each
from specguide.kernels.pointwise import ProductScales
from specguide.kernels.triton.device import await_results, num_multiprocessors, overlap
from specguide.kernels.triton.float8 import (
    NO_SCALES,
    Float8Scales,
    ScalesAt,
    empty_rows,
    store_float8,
    with_scales,
)
from specguide.kernels.triton.peers import (
    PeerArguments,
    sum_constants,
    sum_over_ranks_of,
)

_NO_SCALING = Float8Scaling()


class _Strides(NamedTuple):
    """Strides between rows, heads or parts of the input, between rows of the residual, and between
    rows of the output."""

    row: Any
    head: Any
    part: Any
    residual: Any
    output: Any


@triton.jit
def _with_residual(values, residual, total, exists):
    """The sum of values and residual, rounded and stored. The norm is computed from the rounded
    sum, which the next layer sees as the residual."""
    values = (values + residual.to(tl.float32)).to(total.dtype.element_ty)
    tl.store(total, values, mask=exists)
    return values.to(tl.float32)


@triton.jit
def _load_sum(x, source, part_stride, exists, NUM_PARTS: tl.constexpr):
    """The parts of some values, added up in float32."""
    values = tl.load(x + source, mask=exists, other=0).to(tl.float32)
    for part in tl.static_range(1, NUM_PARTS):
        values += tl.load(x + part * part_stride + source, mask=exists, other=0)
    return values


@triton.jit(do_not_specialize=["num_rows"])
def _norm_kernel(
    x,
    product_scales,
    row_ids,
    residual,
    weight,
    total,
    output,
    plain,
    float8,
    peers,
    num_rows,
    strides,
    eps,
    NUM_PARTS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_WEIGHTS: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
    HAS_OWNERS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Norm some rows.
    plain:  takes the norm of a row, too, if the output is rounded to float8
    float8: without scales if the output is not rounded
    peers:  with pointers if ranks sum what is added to the residual
    GROUP:  features that share a scale, if the output is rounded
    """
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    dim = tl.arange(0, BLOCK)[None, :]
    exists = (row < num_rows) & (dim < DIM)
    weights = tl.load(weight + (row % NUM_WEIGHTS) * DIM + dim, mask=exists, other=0)
    await_results(OVERLAP)
    token = (row // NUM_HEADS).to(tl.int64)
    if row_ids is not None:
        token = tl.load(row_ids + token, mask=row < num_rows, other=0).to(tl.int64)
    source = token * strides.row + (row % NUM_HEADS) * strides.head + dim
    sink = row.to(tl.int64) * strides.output + dim
    if residual is not None:
        added = residual + row.to(tl.int64) * strides.residual + dim
        before = tl.load(added, mask=exists, other=0)
    values = _load_sum(x, source, strides.part, exists, NUM_PARTS)
    values = with_scales(values, product_scales, row, dim, row < num_rows, dim < DIM)
    if peers.pointers is not None:
        kept: tl.constexpr = residual.dtype.element_ty
        values = sum_over_ranks_of(
            values, peers, row, dim, exists, kept, DIM, RANK, NUM_RANKS, HAS_OWNERS
        )
    if residual is not None:
        values = _with_residual(values, before, total + row.to(tl.int64) * DIM + dim, exists)
    scale = tl.rsqrt(tl.sum(values * values, 1) / DIM + eps)[:, None]
    normed = values * scale * weights.to(tl.float32)
    if float8.scales is None:
        tl.store(output + sink, normed, mask=exists)
    else:
        rounded = x.dtype.element_ty if residual is None else residual.dtype.element_ty
        normed = tl.where(exists, normed, 0.0).to(rounded)
        if plain is not None:
            tl.store(plain + sink, normed, mask=exists)
        normed = normed.to(tl.float32)
        store_float8(normed, output, float8, row, dim, num_rows, DIM, ROWS, BLOCK, GROUP)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See pointwise.rms_norm."""
    shape = x.shape
    x = x if x.dim() == 3 else x.reshape(-1, 1, shape[-1])
    x = x if x.stride(-1) == 1 else x.contiguous()
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch(x[None], None, None, weight, None, output.view(-1, shape[-1]), eps)
    return output.view(shape)


def norm_into(
    output: Tensor, x: Tensor, weight: Tensor, eps: float, row_ids: Tensor | None = None
) -> None:
    """See pointwise.norm_into."""
    _launch(x[None, :, None], row_ids, None, weight, None, output, eps)


def add_rms_norm(
    residual: Tensor,
    parts: Tensor,
    weight: Tensor,
    eps: float,
    scales: ProductScales | None = None,
    peers: Peers | None = None,
) -> tuple[Tensor, Tensor]:
    """See pointwise.add_rms_norm."""
    total, output = (
        torch.empty(residual.shape, dtype=residual.dtype, device=residual.device) for _ in range(2)
    )
    values = parts[:, :, None]
    _launch(values, None, residual, weight, total, output, eps, scales=scales, peers=peers)
    return total, output


def rms_norm_float8(x: Tensor, weight: Tensor, eps: float, scaling: Float8Scaling) -> Float8Rows:
    """See float8.rms_norm_float8."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    rows = empty_rows(len(x), x.shape[1], scaling, x.device)
    _launch(x[None, :, None], None, None, weight, None, rows.values, eps, rows, scaling)
    return rows


def add_rms_norm_float8(
    residual: Tensor,
    parts: Tensor,
    weight: Tensor,
    eps: float,
    scaling: Float8Scaling,
    scales: ProductScales | None = None,
    peers: Peers | None = None,
    kept: Tensor | None = None,
) -> tuple[Tensor, Float8Rows]:
    """See float8.add_rms_norm_float8."""
    total = torch.empty(residual.shape, dtype=residual.dtype, device=residual.device)
    rows = empty_rows(len(residual), residual.shape[1], scaling, residual.device)
    places = parts[:, :, None], None, residual, weight, total, rows.values
    _launch(*places, eps, rows, scaling, scales, peers, kept)
    return total, rows


def _strides(parts: Tensor, residual: Tensor | None, output: Tensor) -> _Strides:
    of_part, of_row, of_head, _ = parts.stride()
    of_residual = 0 if residual is None else residual.stride(0)
    return _Strides(of_row, of_head, of_part, of_residual, output.stride(0))


def _launch(
    parts: Tensor,
    row_ids: Tensor | None,
    residual: Tensor | None,
    weight: Tensor,
    total: Tensor | None,
    output: Tensor,
    eps: float,
    rows: Float8Rows | None = None,
    scaling: Float8Scaling = _NO_SCALING,
    scales: ProductScales | None = None,
    peers: Peers | None = None,
    kept: Tensor | None = None,
) -> None:
    """Launch the norm of parts [P, T, heads, D], or with `row_ids` of the rows that these name, to
    output [T · heads, D]. total: contiguous; rows: the float8 rows whose values are `output`; kept:
    see float8.add_rms_norm_float8"""
    num_parts, _, num_heads, dim = parts.shape
    num_rows = len(output)
    block = triton.next_power_of_2(dim)
    num_each = rows_each(dim)
    num_programs = triton.cdiv(num_rows, num_each)
    _norm_kernel[(num_programs,)](
        parts,
        NO_SCALES if scales is None else ScalesAt(*scales),
        row_ids,
        residual,
        weight,
        total,
        output,
        kept,
        Float8Scales(None if rows is None else rows.scale, scaling.static_scale),
        PeerArguments.of(peers),
        num_rows,
        _strides(parts, residual, output),
        eps,
        NUM_PARTS=num_parts,
        NUM_HEADS=num_heads,
        NUM_WEIGHTS=weight.numel() // dim,
        DIM=dim,
        ROWS=num_each,
        BLOCK=block,
        GROUP=FLOAT8_GROUP if scaling.is_grouped else block,
        num_warps=_num_warps(block, num_programs, parts.device),
        **sum_constants(peers, num_rows),
        **overlap(parts.device),
    )


def _num_warps(block: int, num_programs: int, device: torch.device) -> int:
    """The number of warps of a program. A program that may have a multiprocessor to itself has as
    many threads as fit on it, and so waits for memory only once."""
    is_alone = num_programs <= num_multiprocessors(device)
    return min(32, max(1, block // 128)) if is_alone else min(8, max(1, block // 512))
