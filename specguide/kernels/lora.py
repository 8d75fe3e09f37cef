"""Owns the products of LoRA adapters: what each row's adapter adds to a projection's product."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LoraMatrices:
    """The matrices of N adapters for a projection of M stacked maps (Hu et al. 2021, "LoRA", arXiv
    2106.09685). An adapter whose rank is below R, or that leaves a map alone, has zeros.

    a:      [N, M, R, in_features]
    b:      [N, out_features, R], already multiplied by the adapter's scale
    bounds: M + 1 output features; map m has those from bounds[m] to bounds[m + 1] - 1
    """

    a: Tensor
    b: Tensor
    bounds: tuple[int, ...]

    @property
    def sections(self) -> list[tuple[int, int]]:
        """The first output feature of each map, and the one behind its last."""
        return list(pairwise(self.bounds))


def add_lora(product: Tensor, x: Tensor, matrices: LoraMatrices, adapter_ids: Tensor) -> None:
    """Add b · a · x of each row's adapter to a projection's product, in place.

    product:     [T, out_features], contiguous
    x:           [T, in_features], the projection's input
    adapter_ids: int32 [T], the adapter of each row, 1 … N; 0: none
    """
    found = adapter_ids.unique().tolist()
    if len(found) == 1 and found[0]:  # in most passes; rows need not be gathered
        product += _added(x, matrices, found[0] - 1).to(product.dtype)
        return
    for adapter in filter(None, found):
        rows = (adapter_ids == adapter).nonzero()[:, 0]
        product[rows] += _added(x[rows], matrices, adapter - 1).to(product.dtype)


def _added(x: Tensor, matrices: LoraMatrices, adapter: int) -> Tensor:
    """What one adapter adds to rows of x, float32."""
    a, b = matrices.a[adapter].float(), matrices.b[adapter].float()
    inner = (x.float() @ a.flatten(0, 1).T).split(a.shape[1], 1)
    maps = zip(inner, matrices.sections, strict=True)
    return torch.cat([of_map @ b[start:stop].T for of_map, (start, stop) in maps], 1)
