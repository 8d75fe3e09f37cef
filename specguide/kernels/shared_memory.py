"""Owns memory that the host and a GPU both read and write."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack, to_dlpack


class _TensorHead(ctypes.Structure):
    """How a DLManagedTensor begins (DLPack's dlpack.h): where the memory is, and whose it is."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    )


_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def mapped(pinned: Tensor, device: torch.device) -> Tensor:
    """The same memory as a tensor of the device, which reads and writes it over the bus.

    All devices may, whichever pinned it: it has one address for the host and all GPUs. Asked by the
    address, CUDA says that it is the pinning device's; a DLPack capsule says whose it is, and torch
    takes it at its word. The result keeps the memory alive.
    """
    capsule = to_dlpack(pinned)
    _hand_over(capsule, torch.empty(0, device=device).__dlpack_device__())
    return from_dlpack(capsule)


def _hand_over(capsule: Any, device: tuple[int, int]) -> None:
    """Say that an unread capsule's memory is of this device: DLPack's type and number."""
    head = _TensorHead.from_address(_pointer_of(capsule, b"dltensor"))
    head.device_type, head.device_id = map(int, device)
