"""Owns the capture of a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, pool: Any) -> Iterator[None]:
    """A context whose CUDA work is captured into `graph`.

    Python's garbage collector is off inside: it might destroy graphs, events or memory of an engine
    that is gone, which is forbidden in a thread that captures.

    pool: memory pool of graphs that are never replayed at the same time
    An error raised inside is raised again; torch would hide it behind the error of the broken
    capture.
    """
    torch.cuda.synchronize()
    was_enabled = gc.isenabled()
    gc.disable()
    cause: BaseException | None = None
    try:
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            try:
                yield
            except BaseException as error:
                cause = error
                raise
    except RuntimeError:
        if cause is not None:
            raise cause from None
        raise
    finally:
        if was_enabled:
            gc.enable()
