"""Owns what a launch depends on besides the shapes of its tensors: the device, and the kernel that
was launched before it.

On Hopper and later a kernel may be launched before its predecessor on the stream has ended
(programmatic dependent launch): its programs are placed early, and begin when the predecessor's
results are there. A kernel of a forward pass is launched with `**overlap(device)`, and calls
`await_results(OVERLAP)` before it reads or writes anything but weights. Since every kernel does so,
the results of all earlier kernels are there, too.

Triton compiles a kernel again when an integer argument becomes 1 or a multiple of 16 and was not
before. Arguments that depend on the number of requests or tokens are exempted,
`@triton.jit(do_not_specialize=[…])`: otherwise a request of a new length would wait for the
compiler, and all other requests with it.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import cuda
from triton.runtime import driver

_HOPPER, _HOPPER_SHARED_MEMORY = (9, 0), 227 << 10
_INTERPRETED_MULTIPROCESSORS = 4
"""Number of multiprocessors that is reported without a GPU, where only Triton's interpreter runs:
enough that even small work is split."""


@cache
def num_multiprocessors(device: torch.device) -> int:
    """The number of multiprocessors of a GPU."""
    if device.type != "cuda":
        return _INTERPRETED_MULTIPROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a program on a GPU may have; without a GPU, those of Hopper."""
    if device.type != "cuda":
        return _HOPPER_SHARED_MEMORY
    index = torch.cuda.current_device() if device.index is None else device.index
    num_bytes: int = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return num_bytes


@cache
def overlap(device: torch.device) -> dict[str, Any]:
    """Launch arguments that let a kernel overlap with the end of the one before it, if the device
    can."""
    can = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _HOPPER
    return {"OVERLAP": can} | ({"launch_pdl": True} if can else {})


class Order(IntEnum):
    """A kernel's place in a pair. A leader and the follower right behind it may run at the same
    time, since the follower reads nothing that the leader writes."""

    ALONE = 0
    LEADS = 1
    FOLLOWS = 2


_ALONE, _LEADS, _FOLLOWS = (tl.constexpr(int(order)) for order in Order)


@triton.jit
def await_results(OVERLAP: tl.constexpr, ORDER: tl.constexpr = _ALONE):
    """Let the next kernel start, and wait for the results of the kernels before.

    A leader lets the next kernel start only once all these results are there, so the follower need
    not wait for them; instead it calls `await_leader` at its end.
    """
    if OVERLAP:
        if ORDER == _LEADS:
            cuda.gdc_wait()
            cuda.gdc_launch_dependents()
        else:
            cuda.gdc_launch_dependents()
            if ORDER == _ALONE:
                cuda.gdc_wait()


@triton.jit
def await_leader(OVERLAP: tl.constexpr, ORDER: tl.constexpr):
    """Wait for the leader at the end of a follower. So the kernel behind the follower waits for
    both."""
    if OVERLAP and ORDER == _FOLLOWS:
        cuda.gdc_wait()


@triton.jit
def prefetch(lines):
    """Prefetch the cache lines at some addresses into the L2 cache."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [lines],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
