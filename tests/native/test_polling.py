"""Polled callbacks: the same outputs as with host functions, and what happens when the polling
thread ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest
import torch
from polling import POLLING, polling_stream
from random_requests import cases
from tiny_engine import generate, make, told

from specguide import GuideConfig, native
from specguide.errors import EngineError


@pytest.mark.parametrize(
    ("spec", "lag"), [(True, 0), (True, 2), (False, 0)], ids=["spec", "lagging", "plain"]
)
def test_outputs_are_those_of_host_functions(folders, spec, lag):
    prompts, params = cases(1, 24)
    llms = [
        make(folders, spec=spec, lag=lag, max_batch_size=8, guide=guide)
        for guide in (GuideConfig(deadline_us=60_000_000), POLLING)
    ]
    results = []
    for llm in llms:
        if llm is llms[1]:
            polling_stream(llm).end_thread(2)
        results.append(told(generate(llm, prompts, params)))
    assert results[0] == results[1]


def test_without_a_polling_thread_the_engine_fails_and_does_not_hang(folders):
    prompts, params = cases(1, 4)
    llm = make(folders, guide=POLLING)
    llm.generate(prompts, params)
    polling_stream(llm).end_thread(1000)
    with pytest.raises(EngineError, match="the polling thread ended"):
        llm.generate(prompts, params)


def test_python_functions_are_freed_with_their_graph() -> None:
    class Payload:
        pass

    payload, seen = Payload(), []
    alive = weakref.ref(payload)
    words = torch.zeros(8, dtype=torch.int32)
    host = native.HostStream()
    stream = native.PollingStream(host, words.data_ptr(), 4, words)
    host.begin_capture()
    stream.launch(
        native.python_host_function(
            lambda given: seen.append(type(given).__name__), (payload,), {}, "look"
        )
    )
    graph = host.end_capture()
    del payload
    for _ in range(3):
        graph.replay(host)
    stream.synchronize()
    assert seen == ["Payload"] * 3 and alive() is not None
    del graph
    gc.collect()
    native.drain_releases()
    assert alive() is None


def test_a_process_may_end_with_a_poller_at_work() -> None:
    program = """
import numpy as np
from specguide import native
words = np.zeros(8, np.int32)
stream = native.PollingStream(native.HostStream(), words.ctypes.data, 4, words)
stream.launch(native.python_host_function(print, ("bye",), {}, "print"))
stream.synchronize()
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        timeout=60,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (result.returncode, result.stdout) == (0, "bye\n")
