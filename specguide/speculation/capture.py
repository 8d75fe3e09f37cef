"""Owns the capture of a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, pool: Any) -> Iterator[None]:
    """Capture what is done meanwhile into `graph`.

    Python's garbage collector waits: it might destroy graphs, events or memory of an engine that is
    gone, which a thread that captures must not.

    pool: memory of graphs that are never replayed at once
    Raises what is raised meanwhile, of which the end of a capture that broke off would say nothing.
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
