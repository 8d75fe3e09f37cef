"""Owns what the Gluon kernels for Hopper GPUs share: where they can run, the descriptors for copies
to shared memory, and what happens if a kernel does not compile.

Gluon changes with each Triton release. If a kernel cannot be imported or compiled, a kernel that
runs anywhere does its work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextvars import Context, copy_context
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor

_HOPPER = (9, 0)
_ALIGNMENT = 16
"""Alignment in bytes of all lines that are copied to shared memory."""
_LINE_BYTES = 128
"""Bytes of a line per copy."""
T = TypeVar("T")


@cache
def runs_on(device: torch.device, kernels: str) -> bool:
    """Whether the device and the installed Triton can run the kernels of this neighbouring
    module."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != _HOPPER:
        return False
    try:
        import_module(f"specguide.kernels.triton.{kernels}")
    except (ImportError, AttributeError):
        return False
    return True


def is_aligned(lines: Tensor) -> bool:
    """Whether blocks of a matrix can be copied by descriptors."""
    num_bytes = lines.stride(0) * lines.element_size()
    is_aligned = num_bytes % _ALIGNMENT == 0 and lines.data_ptr() % _ALIGNMENT == 0
    return is_aligned and lines.stride(1) == 1


def blocks(values: Tensor, num_lines: int, shape: Sequence[int], stride: int) -> Any:
    """A descriptor that copies 128 bytes of `num_lines` lines to shared memory, with 0 beyond the
    end of a matrix of this shape. stride: elements between lines"""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    num_bits = 8 * values.element_size()
    layout = gl.NVMMASharedLayout(_LINE_BYTES, element_bitwidth=num_bits, rank=2)
    block = [num_lines, _LINE_BYTES // values.element_size()]
    return TensorDescriptor(values, list(shape), [stride, 1], block, layout)


class Attempts:
    """Launches of a kernel that may not compile. It is tried once, and a failure is reported once.

    work: the kernel's work, as a warning names it
    """

    def __init__(self, work: str) -> None:
        self._work = work
        self._accepted: set[Hashable] = set()
        self._is_refused = False

    def result(self, variant: Hashable, launch: Callable[[], T]) -> T | None:
        """The result of the launch; None if the kernel does not compile.

        A new variant is compiled at once in a context of its own. Otherwise it would be compiled on
        a thread whose errors nobody sees.
        """
        if self._is_refused:
            return None
        context = copy_context() if variant in self._accepted else Context()
        try:
            output = context.run(launch)
            self._accepted.add(variant)
            return output
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._is_refused = True
            warnings.warn(
                f"the faster kernel for {self._work} does not compile with this version of Triton, "
                f"so a slower one is used: {error}",
                stacklevel=2,
            )
            return None
