"""Owns how small values of the host get to the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor


def on_device(values: Any, device: torch.device | str, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of these values; on a GPU it does not wait for the work that the stream still
    has."""
    device = torch.device(device)
    return torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda").to(
        device, non_blocking=True
    )


def write_from_host(place: Tensor, values: Sequence[int]) -> None:
    """Write the values, as `on_device` would, to the beginning of a buffer that a captured pass
    reads."""
    on_gpu = place.device.type == "cuda"
    source = torch.tensor(values, dtype=place.dtype, pin_memory=on_gpu)
    place[: len(values)].copy_(source, non_blocking=True)


@cache
def constant(values: tuple[int, ...], device: torch.device) -> Tensor:
    """A tensor of these values, int64 [n]. It is made once and cached, since it cannot be made
    during a capture."""
    return torch.tensor(values, dtype=torch.int64, device=device)
