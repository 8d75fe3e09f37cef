"""An engine on any device, used from any thread: which device is meant, and that all that is
launched names it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps

import pytest
import torch
from random_requests import cases
from tiny_engine import make

from specguide.config import EngineConfig
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.setup.facts import resolved
from specguide.errors import InvalidParams
from specguide.kernels.shared_memory import mapped
from specguide.speculation import iteration as iteration_module


def test_mapped_memory_is_the_same_memory():
    pinned = torch.arange(6, dtype=torch.int32).view(2, 3)
    there = mapped(pinned, torch.device("cpu"))
    there[1, 2] = 70
    pinned[0, 1] = 7
    assert there.tolist() == pinned.tolist() == [[0, 7, 2], [3, 4, 70]]
    assert there.dtype == torch.int32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int32, torch.int64])
def test_mapped_memory_has_the_same_form_and_lives_as_long(dtype):
    memory = torch.zeros(4, 6, dtype=dtype)
    there = mapped(memory[1:3, ::2], torch.device("cpu"))
    assert (there.dtype, there.shape, there.stride()) == (dtype, (2, 3), (6, 2))
    there.fill_(1)
    assert memory.sum() == 6 and memory[1:3, ::2].sum() == 6
    address = memory[1:3].data_ptr()
    del memory
    assert there.data_ptr() == address and there.sum() == 6


def device_of(monkeypatch, name: str, num_devices: int, current: int = 0) -> torch.device:
    """The device to which the models would be loaded."""

    class Found(Exception):
        pass

    def load(folder, device, dtype, **_):
        raise Found(device)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: num_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    monkeypatch.setattr("specguide.engine.executors.local.load_decoder", load)
    with pytest.raises(Found) as found:
        LocalExecutor.load(resolved(EngineConfig(device=name)))
    return found.value.args[0]


def test_a_device_has_its_number(monkeypatch):
    assert device_of(monkeypatch, "cuda:1", 2) == torch.device("cuda", 1)
    assert device_of(monkeypatch, "cuda", 2, current=1) == torch.device("cuda", 1)
    assert device_of(monkeypatch, None, 2) == torch.device("cuda", 0)
    assert device_of(monkeypatch, None, 0) == torch.device("cpu")


def test_a_device_that_is_not_there(monkeypatch):
    with pytest.raises(
        InvalidParams,
        match="'cuda:2' does not exist: torch finds 2 CUDA devices here, and the last is 'cuda:1'",
    ):
        device_of(monkeypatch, "cuda:2", 2)
    with pytest.raises(InvalidParams, match="'cuda:1': torch finds no CUDA device here"):
        device_of(monkeypatch, "cuda:1", 0)


@pytest.mark.parametrize("arrangement", [dict(), dict(lag=2), dict(spec=False)], ids=str)
def test_all_that_is_launched_is_launched_on_the_forward_stream(folders, monkeypatch, arrangement):
    """The forward stream is what makes its device the current one."""
    llm, is_inside = make(folders, **arrangement), []
    step, grammar = llm._engine._executor.step, llm._engine._executor.grammar

    @contextmanager
    def on_forward_stream():
        is_inside.append(True)
        yield
        is_inside.pop()

    def guarded(method):
        @wraps(method)
        def call(*args, **kwargs):
            assert is_inside
            num_calls.append(method.__name__)
            return method(*args, **kwargs)

        return call

    num_calls: list[str] = []
    monkeypatch.setattr(grammar.forward, "current", on_forward_stream)
    for owner, names in (
        (grammar, ("launch", "announce_wait", "wait_rows")),
        (step._iteration._drafting, ("nodes", "verify", "draft")),
        (step._state, ("enter", "leave", "change")),
        (iteration_module, ("prefill_input",)),
        (step._iteration._passes, ("target", "target_logits", "refresh", "draft", "draft_logits")),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, guarded(getattr(owner, name)))
    prompts, params = cases(2, 12)
    with ThreadPoolExecutor(1) as thread:  # another than the one that made it
        assert {out.error for out in thread.submit(llm.generate, prompts, params).result()} == {
            None
        }
    assert {"launch", "enter", "leave", "change", "nodes", "target"} <= set(
        num_calls
    ) and not is_inside
    llm.close()
