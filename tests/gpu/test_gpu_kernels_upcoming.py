"""Kernels that have the next product's weight brought to the cache compute what they do alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gpu_case import DEVICE
from small_cases import small

from specguide import kernels
from specguide.kernels.float8 import FLOAT8, Float8Scaling

pytestmark = pytest.mark.gpu

DIM = 1024
ROW, GROUPED = Float8Scaling(), Float8Scaling(is_grouped=True)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random).to(DEVICE, torch.bfloat16)


def roped(x: torch.Tensor, upcoming: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Queries, and the caches."""
    heads = x.unflatten(1, (8, 128))
    num_tokens = len(x)
    slots = torch.arange(num_tokens, device=DEVICE) * 3
    caches = [torch.zeros(3 * num_tokens, 1, 2, 128, dtype=x.dtype, device=DEVICE) for _ in "kv"]
    rotary = normal(num_tokens, 2, 1, 128, seed=1)
    places = rotary, *caches, slots
    query = kernels.rope_and_store(heads[:, :6], heads[:, 6:], *places, upcoming=upcoming)
    return query, *caches


KERNELS: dict[str, Callable[[torch.Tensor, torch.Tensor | None], Any]] = {
    "norm": lambda x, w: kernels.add_rms_norm(x, x[None], x[0], 1e-5, upcoming=w),
    "rounded norm": lambda x, w: kernels.add_rms_norm_float8(
        x, x[None], x[0], 1e-5, ROW, upcoming=w
    ),
    "rounding": lambda x, w: kernels.to_float8(x, ROW, w),
    "rounding of groups": lambda x, w: kernels.to_float8(x.repeat(1, 3), GROUPED, w),
    "activation": lambda x, w: kernels.silu_mul_float8(x, ROW, upcoming=w),
    "rotation": roped,
}


def tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found.view(torch.uint8) if found.dtype == FLOAT8 else found]
    return [tensor for part in found for tensor in tensors(part)]


@pytest.mark.parametrize("name", [small(name) for name in KERNELS])
def test_nothing_changes(name: str) -> None:
    for num_rows in (1, 5, 64):
        x = normal(num_rows, DIM)
        for shape, dtype in (((96, DIM), torch.bfloat16), ((2048, 3584), FLOAT8), ((3, 5), FLOAT8)):
            weight = torch.zeros(shape, device=DEVICE).to(dtype)
            found, expected = (tensors(KERNELS[name](x, some)) for some in (weight, None))
            assert all(map(torch.equal, found, expected))
