"""Owns what a launch depends on beside the shapes of its tensors: the device, and the kernel
launched before it.

On Hopper and later a kernel may be launched before its predecessor on the stream has ended
(programmatic dependent launch): its programs take their places, and begin when the predecessor's
results are there. A kernel of a forward pass is launched with `**overlap(device)`, and calls
`await_results(OVERLAP)` before it reads or writes anything but weights. Since each of them does,
what any earlier kernel wrote is there too.

Triton compiles a kernel anew where an integer is 1 or a multiple of 16 and was not before. What
follows the number of requests or tokens is exempt from that, `@triton.jit(do_not_specialize=[…])`:
a request of a new length would wait for the compiler, and all others with it.
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

_HOPPER = (9, 0)
_INTERPRETED_MULTIPROCESSORS = 4
"""Number that is told where there is no GPU and only Triton's interpreter runs: enough for small
work to be split."""


@cache
def num_multiprocessors(device: torch.device) -> int:
    """The number of multiprocessors of a GPU."""
    if device.type != "cuda":
        return _INTERPRETED_MULTIPROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def overlap(device: torch.device) -> dict[str, Any]:
    """Arguments of a launch that may overlap with the end of the one before it, where the device
    can do that."""
    can = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _HOPPER
    return {"OVERLAP": can} | ({"launch_pdl": True} if can else {})


class Order(IntEnum):
    """A kernel's place in a pair. A leader and the follower right behind it may run at once, since
    the follower reads nothing of the leader's."""

    ALONE = 0
    LEADS = 1
    FOLLOWS = 2


_ALONE, _LEADS, _FOLLOWS = (tl.constexpr(int(order)) for order in Order)


@triton.jit
def await_results(OVERLAP: tl.constexpr, ORDER: tl.constexpr = _ALONE):
    """Let the next kernel take its place, and wait for the results of those before.

    A leader lets it begin only once all these results are there, so a follower need not wait for
    them; it calls `await_leader` at its end.
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
    """Wait for the leader, at the end of a follower: so what comes behind the follower waits for
    both."""
    if OVERLAP and ORDER == _FOLLOWS:
        cuda.gdc_wait()


@triton.jit
def prefetch(lines):
    """Ask for the lines of memory at some addresses to be in the L2 cache soon."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [lines],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
