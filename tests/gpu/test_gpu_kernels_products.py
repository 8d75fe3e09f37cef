"""Products by cuBLASLt in ways that were timed, against torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from gpu_case import DEVICE, IS_INTERPRETED
from small_cases import small
from torch import Tensor

from specguide.kernels import cublaslt, linear, products

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(IS_INTERPRETED, reason="there is no such library on a CPU"),
]


def inputs(num_rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    weight = torch.randn(28672, 4096, device=DEVICE, dtype=dtype) / 64
    return torch.randn(num_rows, 4096, device=DEVICE, dtype=dtype), weight


@pytest.mark.parametrize(
    ("num_rows", "dtype"),
    [small(100, torch.float16), (640, torch.float16), (640, torch.bfloat16), (768, torch.bfloat16)],
)
def test_every_way_gives_the_product(num_rows: int, dtype: torch.dtype) -> None:
    x, weight = inputs(num_rows, dtype)
    library, stream = cublaslt.library(), torch.cuda.Stream()
    assert library is not None
    shape = cublaslt.Shape(x.device, stream.cuda_stream, dtype, dtype, num_rows, *weight.shape)
    expected = F.linear(x, weight)
    ways = library.ways(shape)
    assert len(ways) > 1
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for way in ways:
            torch.testing.assert_close(way.product(x, weight), expected, rtol=2e-2, atol=2e-2)


def test_what_was_chosen_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = inputs(640, torch.bfloat16)
    seen: list[list[float]] = []

    def last(times: list[float]) -> int:
        seen.append(times)
        return len(times) - 1

    monkeypatch.setattr(products, "best_of", last)
    monkeypatch.setattr(products, "_ways", {})
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), products.choosing(x.device):
        linear(x, weight)
    assert len(seen[0]) > 2 and all(0.1 < time < 100 for time in seen[0])
    (way,) = products._ways.values()
    assert way is not None
    expected = F.linear(x, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = linear(x, weight)
    for _ in range(3):
        graph.replay()
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    assert products.product(x, weight) is None  # on another stream
