"""Owns memory that the host and a GPU both read and write."""

from __future__ import annotations

import torch
from torch import Tensor


def mapped(pinned: Tensor, device: torch.device) -> Tensor:
    """The same memory as a tensor of the device, which reads and writes it over the bus; `pinned`
    must outlive it.

    All devices may, whichever pinned it. The ways that torch documents take it for the pinning
    device's, and copy.
    """
    tensor = torch.empty(0, dtype=pinned.dtype, device=device)
    storage = torch._C._construct_storage_from_data_pointer(
        pinned.data_ptr(), tensor.device, pinned.nbytes
    )
    return tensor.set_(storage, 0, pinned.shape, pinned.stride())
