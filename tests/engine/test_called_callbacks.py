"""The way of a GPU, whose forward stream calls the callbacks by words and has copies of their rows,
on a CPU: outputs are those of an engine that has a grammar stream."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from misfits import FAILURES, check_a_failing_matcher
from random_requests import cases
from requests_of_every_kind import PATIENT, SPECS, outputs
from tiny_engine import generate, make

from specguide import LLM, GuideConfig, SpecConfig
from specguide.batch import GuideSnapshot
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors import local
from specguide.guided.grammar_stream import step_rows, streams
from specguide.guided.grammar_stream.buffers import plain_zeros
from specguide.guided.grammar_stream.callbacks import GrammarCallbacks, HostMemory
from specguide.speculation.warm_up import run_idle

KINDS = SPECS | {
    "no drafts": None,
    "unguided drafts": SpecConfig("eagle3", guided_drafts=False),
    "lookup": SpecConfig("ngram"),
}


@pytest.fixture
def by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines made from here on call by words."""
    memory = HostMemory(plain_zeros, torch.zeros(1, dtype=torch.int32))
    monkeypatch.setattr(local, "GrammarCallbacks", partial(GrammarCallbacks, memory=memory))


def calls_by_words(llm: LLM) -> bool:
    return isinstance(llm._engine._executor.grammar._streams, streams.PolledCallbacks)


@pytest.mark.parametrize("name", KINDS)
def test_outputs_are_those_of_a_grammar_stream(one_process, by_words, name):
    guide = replace(PATIENT, callbacks="polling")
    config = EngineConfig(spec=KINDS[name], guide=guide, max_model_len=256, dtype="float32")
    llm = LLM.around(Engine(config))
    assert calls_by_words(llm)
    assert outputs(llm) == one_process


@pytest.mark.usefixtures("by_words")
@pytest.mark.parametrize(("action", "words"), FAILURES)
def test_a_failing_matcher_ends_its_own_request(folders, action, words):
    llm = make(folders, guide=GuideConfig(callbacks="polling", deadline_us=60_000_000))
    assert calls_by_words(llm)
    check_a_failing_matcher(llm, action, words)


@pytest.mark.usefixtures("by_words")
@pytest.mark.parametrize("num_abandoned", [1, 5])
def test_an_iteration_that_was_broken_off_leaves_no_trace(folders, num_abandoned, monkeypatch):
    """One way is a rehearsal, in which kernels are compiled and not launched: nobody is called."""
    prompts, params = cases(3, 8)
    guide = GuideConfig(callbacks="polling", deadline_us=60_000_000)
    llm = make(folders, max_batch_size=4, guide=guide)
    expected = [out.token_ids for out in llm.generate(prompts, params)]
    executor = llm._engine._executor
    with monkeypatch.context() as patch:
        patch.setattr(streams, "call_host", lambda *_: None)
        patch.setattr(step_rows, "take_rows", lambda *_: None)
        run_idle(executor.grammar, partial(executor.grammar.launch, 0, 4), num_abandoned)
        executor.grammar.wait_rows()
    executor.step._forget_rehearsals()
    assert [out.token_ids for out in llm.generate(prompts, params)] == expected
    for _ in range(num_abandoned):  # called, and not waited for
        executor.grammar.submit(GuideSnapshot(started=(), continued=()))
        executor.grammar.launch(0, 4)
    executor.grammar.abandon()
    assert [out.token_ids for out in generate(llm, prompts, params)] == expected
