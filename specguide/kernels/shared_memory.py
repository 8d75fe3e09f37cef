"""Owns memory that both the host and a GPU read and write, in one process or in several."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack, to_dlpack


class _TensorHead(ctypes.Structure):
    """The first fields of a DLManagedTensor (DLPack's dlpack.h): the memory's address and its
    device."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    )


_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def mapped(pinned: Tensor, device: torch.device) -> Tensor:
    """The pinned memory as a tensor of the device, which reads and writes it over the bus.

    Any device may do so, whichever one pinned it: the memory has one address for the host and all
    GPUs. CUDA would report the pinning device for that address; torch instead believes the device
    that a DLPack capsule names. The result keeps the memory alive.
    """
    capsule = to_dlpack(pinned)
    _hand_over(capsule, torch.empty(0, device=device).__dlpack_device__())
    return from_dlpack(capsule)


def _hand_over(capsule: Any, device: tuple[int, int]) -> None:
    """Make an unread capsule say that its memory is on this device: DLPack's type and number."""
    head = _TensorHead.from_address(_pointer_of(capsule, b"dltensor"))
    head.device_type, head.device_id = map(int, device)


class _Pinned(mmap.mmap):
    """Memory that processes share, pinned for this process's GPU as long as anything refers to
    it."""

    address = 0
    descriptor = -1

    def __del__(self) -> None:
        if self.address:
            cudart: Any = torch.cuda.cudart()
            cudart.cudaHostUnregister(self.address)
        if self.descriptor >= 0:
            os.close(self.descriptor)


def pinned_for_others(num_bytes: int) -> tuple[Tensor, str]:
    """Memory uint8 [num_bytes], all zero, and the file by which `of_another_process` finds it as
    long as the memory exists. Raises RuntimeError if the system or CUDA refuses it."""
    try:
        descriptor = os.memfd_create("specguide", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, num_bytes)
    except OSError as cause:
        raise RuntimeError(f"cannot create memory that processes share: {cause}") from cause
    return _pinned(descriptor, num_bytes), f"/proc/{os.getpid()}/fd/{descriptor}"


def of_another_process(file: str, num_bytes: int) -> Tensor:
    """The memory of another process's file, in this process. Raises RuntimeError if the system does
    not allow it."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError as cause:
        raise RuntimeError(f"cannot open the shared memory of another rank: {cause}") from cause
    return _pinned(descriptor, num_bytes)


def _pinned(descriptor: int, num_bytes: int) -> Tensor:
    """The memory of a file, pinned; it closes the descriptor when it is freed."""
    memory = _Pinned(descriptor, num_bytes)
    memory.descriptor = descriptor
    tensor = torch.frombuffer(memory, dtype=torch.uint8)
    if torch.cuda.is_available():
        portable_and_mapped = 3  # CUDA's flags: for all contexts, and readable by kernels
        cudart: Any = torch.cuda.cudart()
        result = int(cudart.cudaHostRegister(tensor.data_ptr(), num_bytes, portable_and_mapped))
        if result != 0:
            raise RuntimeError(f"CUDA cannot pin memory that processes share (error {result})")
        memory.address = tensor.data_ptr()
    return tensor
