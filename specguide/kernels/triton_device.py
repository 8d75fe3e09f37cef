"""Owns what the shape of a launch depends on beside the shapes of its tensors."""

from __future__ import annotations

from functools import cache

import torch


@cache
def num_multiprocessors(device: torch.device) -> int:
    """Of the GPU; 1 elsewhere, where only Triton's interpreter runs."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
