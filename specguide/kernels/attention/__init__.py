"""Attention over the paged cache: the backends, and which one runs where.

A backend is a file here and an entry in `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from specguide.kernels.attention.cpu_backend import CpuAttention
from specguide.kernels.attention.interface import (
    CAUSAL,
    AttentionBackend,
    AttentionForm,
    AttentionMask,
    AttentionPlan,
    ForwardContext,
    OutputRows,
    PassContext,
    StateRows,
    TreeMask,
)
from specguide.kernels.attention.joined import JoinedContext
from specguide.kernels.attention.torch_backend import TorchAttention


def _triton() -> AttentionBackend:
    """The Triton backend. Triton is imported here because it need not be installed where there is
    no GPU."""
    from specguide.kernels.attention.triton_backend import TritonAttention

    return TritonAttention()


BACKENDS: dict[str, Callable[[], AttentionBackend]] = {"cpu": CpuAttention, "cuda": _triton}
"""The functions that make the backend of each type of device."""


def attention_backend(device: torch.device) -> AttentionBackend:
    """The backend that runs attention on a device."""
    return BACKENDS.get(device.type, TorchAttention)()


__all__ = [
    "BACKENDS",
    "CAUSAL",
    "AttentionBackend",
    "AttentionForm",
    "AttentionMask",
    "AttentionPlan",
    "CpuAttention",
    "ForwardContext",
    "JoinedContext",
    "OutputRows",
    "PassContext",
    "StateRows",
    "TorchAttention",
    "TreeMask",
    "attention_backend",
]
