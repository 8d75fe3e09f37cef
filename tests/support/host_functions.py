"""Graphs that call host functions, and payloads whose end can be waited for."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch

from specguide import native


class Payload:
    """An object that weak references can refer to."""


def wait_until_gone(alive: Callable[[], object]) -> None:
    """alive: a weak reference"""
    end = time.monotonic() + 10
    while alive() is not None:
        assert time.monotonic() < end, "the payload was not freed"
        gc.collect()
        native.drain_releases()
        time.sleep(0.001)


def captured(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """A graph of one call."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        work()
    return graph
