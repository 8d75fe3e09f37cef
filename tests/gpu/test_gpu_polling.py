"""Polled callbacks on a GPU: captured and eager launches, lifetimes, and polling threads that
end."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
import weakref
from collections.abc import Callable

import pytest
import torch
from host_functions import Payload, captured, wait_until_gone
from polling import POLLING, polling_stream
from random_requests import cases
from tiny_engine import make

from specguide import GuideConfig, native
from specguide.errors import EngineError

pytestmark = pytest.mark.gpu

FP32 = dict(device="cuda", dtype="float32", max_batch_size=8)


class Rig:
    """A side stream with a poller, forked from torch's current stream and joined again by each
    launch."""

    def __init__(self) -> None:
        words = torch.zeros(128, dtype=torch.int32, pin_memory=True)
        self.side = torch.cuda.Stream()
        inner = native.CudaStream(self.side.cuda_stream, "side")
        self.stream = native.PollingStream(inner, words.data_ptr(), 64, words)

    def launch(self, function: Callable[..., object], *args: object) -> None:
        self.side.wait_stream(torch.cuda.current_stream())
        self.stream.launch(native.python_host_function(function, args, {}, "function"))
        torch.cuda.current_stream().wait_stream(self.side)


def count_up(rig: Rig, num: int) -> tuple[Callable[[], None], list[int], torch.Tensor]:
    """Work that has the host look `num` times at a number which the GPU counts up in between."""
    seen: list[int] = []
    on_device = torch.zeros(1, dtype=torch.int32, device="cuda")
    on_host = torch.zeros(1, dtype=torch.int32, pin_memory=True)

    def work() -> None:
        for _ in range(num):
            on_device.add_(1)
            on_host.copy_(on_device, non_blocking=True)
            rig.launch(lambda: seen.append(int(on_host)))

    on_device.add_(0)
    return work, seen, on_device


def test_graphs_share_a_poller_with_eager_launches() -> None:
    rig = Rig()
    (a, seen_a, _), (b, seen_b, _) = count_up(rig, 4), count_up(rig, 1)
    graphs = [captured(a), captured(b)]
    assert seen_a == seen_b == []
    for _ in range(20):
        for graph in graphs:
            graph.replay()
        b()
    torch.cuda.synchronize()
    rig.stream.check()
    assert seen_a == list(range(1, 81)) and seen_b == list(range(1, 41))


def test_a_captured_payload_lives_as_long_as_the_graph_and_any_other_as_its_call() -> None:
    rig, seen, payloads = Rig(), [], [Payload(), Payload()]
    kept, called = (weakref.ref(payload) for payload in payloads)
    graph = captured(
        functools.partial(rig.launch, lambda given: seen.append(given is kept()), payloads[0])
    )
    rig.launch(lambda given: seen.append(given is called()), payloads[1])
    payloads.clear()
    torch.cuda.synchronize()
    wait_until_gone(called)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    native.drain_releases()
    assert seen == [True] * 4 and kept() is not None
    del graph
    wait_until_gone(kept)


@pytest.mark.parametrize("after_running", [False, True])
def test_another_thread_takes_over(after_running: bool) -> None:
    rig = Rig()
    work, seen, _ = count_up(rig, 3)
    graph = captured(work)
    for _ in range(5):
        rig.stream.end_thread(2, after_running)
        graph.replay()
        torch.cuda.synchronize()
    rig.stream.check()
    assert seen == list(range(1, 16))


def test_the_gpu_goes_on_when_no_thread_lasts() -> None:
    rig = Rig()
    work, seen, on_device = count_up(rig, 3)
    graph = captured(work)
    rig.stream.end_thread(1000)
    start = time.monotonic()
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert time.monotonic() - start < 30 and seen == [] and int(on_device) == 6
    with pytest.raises(EngineError, match="the polling thread ended"):
        rig.stream.check()


def test_a_poller_that_slept_wakes_up() -> None:
    rig = Rig()
    work, seen, _ = count_up(rig, 1)
    graph = captured(work)
    for _ in range(3):
        time.sleep(0.3)
        graph.replay()
        torch.cuda.synchronize()
    assert seen == [1, 2, 3]


def test_launches_of_one_function_in_many_graphs_have_the_same_words() -> None:
    rig, seen = Rig(), []
    rig.stream.launch(native.python_host_function(seen.append, (0,), {}, "function"))
    rig.side.synchronize()
    function = native.python_host_function(lambda: seen.append(len(seen)), (), {}, "function")
    graphs = []
    for _ in range(100):  # there are words for 64
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            rig.side.wait_stream(torch.cuda.current_stream())
            rig.stream.launch(function)
            torch.cuda.current_stream().wait_stream(rig.side)
        graphs.append(graph)
    for graph in graphs + graphs:
        graph.replay()
    torch.cuda.synchronize()
    assert seen == list(range(201))


def test_what_breaks_a_capture_off_is_told() -> None:
    """This runs in a process of its own, whose memory pools such a capture leaves open."""
    broken = """
import torch
from specguide.kernels.capture import capturing
side = torch.cuda.Stream()
with capturing(torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.graph_pool_handle()):
    side.wait_stream(torch.cuda.current_stream())
    raise ValueError("the cause")
"""
    done = subprocess.run(
        [sys.executable, "-c", broken], capture_output=True, text=True, timeout=120
    )
    assert done.stderr.rstrip().endswith("ValueError: the cause") and "unjoined" not in done.stderr


def test_the_engine_gives_what_it_gives_with_host_functions(folders) -> None:
    prompts, params = cases(1, 60)
    outputs = []
    for guide in (GuideConfig(deadline_us=60_000_000), POLLING):
        llm = make(folders, guide=guide, **FP32)
        outputs.append([])
        for _ in range(2):
            if guide is POLLING:
                polling_stream(llm).end_thread(1)
            outputs[-1] += [out.token_ids for out in llm.generate(prompts, params)]
        llm._engine.check_integrity()
        llm.close()
    assert outputs[0] == outputs[1]


def test_the_engine_fails_and_does_not_hang_without_a_polling_thread(folders) -> None:
    prompts, params = cases(1, 8)
    llm = make(folders, guide=POLLING, **FP32)
    llm.generate(prompts, params)
    polling_stream(llm).end_thread(1000)
    with pytest.raises(EngineError, match="the polling thread ended"):
        llm.generate(prompts, params)
