"""Owns what the GPU tests share: the device, moving a case there, calls from captured graphs, and
what is captured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from random_requests import cases

from specguide import LLM
from specguide.speculation.batch_sampling import SamplingKind

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
IS_INTERPRETED = DEVICE.type == "cpu"
FP32 = dict(device="cuda", dtype="float32")


def seeds(num: int) -> range:
    """Seeds of so many random cases, or of fewer if kernels are interpreted, which takes longer."""
    return range(max(1, num // 3) if IS_INTERPRETED else num)


def to_device(thing: Any) -> Any:
    """A copy on the device of a tensor, None, or a dataclass or tuple of these; strides are
    kept."""
    if isinstance(thing, torch.Tensor):
        copy = torch.empty_strided(thing.shape, thing.stride(), dtype=thing.dtype, device=DEVICE)
        return copy.copy_(thing)
    if isinstance(thing, tuple):
        copies = map(to_device, thing)
        return type(thing)(*copies) if hasattr(thing, "_fields") else tuple(copies)
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(
            thing, **{field.name: to_device(getattr(thing, field.name)) for field in fields(thing)}
        )
    return thing


def captured(call: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A graph of one call, and the result that each replay fills. The call is warmed up first, as a
    capture requires."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


def assert_near(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    """Compare a result of the device with the expected one of the same dtype."""
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)


def check_replays(call: Callable[[], torch.Tensor]) -> None:
    """Check that each of many replays of the call's graph gives the result of the call itself."""
    expected = call()
    graph, output = captured(call)
    for _ in range(20):
        output.zero_()
        graph.replay()
        assert torch.equal(output, expected)


def check_warm_up(llm: LLM) -> None:
    """Check that batches of up to 6 requests need only graphs that a warm-up has captured. Closes
    `llm`."""
    llm.warm_up()
    graphs = llm._engine._executor.step._sized.runner._captured
    captured = set(map(id, graphs.values()))
    for num in (1, 3, 6):
        llm.generate(*cases(num, num))
    assert set(map(id, graphs.values())) == captured
    llm.close()


def kinds_captured(llm: LLM) -> set[SamplingKind]:
    """The kinds of sampling of the graphs that were captured so far."""
    return {
        part
        for key, graph in llm._engine._executor.step._sized.runner._captured.items()
        if graph
        for part in key
        if isinstance(part, SamplingKind)
    }
