"""Python callbacks against native ones: the same outputs, the same errors, the same economy."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from baseline_llm import baseline_llm
from chain_matcher import END, VOCAB, WORDS, ChainMatcher
from misfits import FAILURES, Scripted, check_a_failing_matcher, with_misfit
from random_requests import cases
from tiny_engine import K, told

from benchmarks.baselines import PythonGrammarExecutor
from specguide import DynamicTree, GuideConfig, SamplingParams, SpecConfig, native
from specguide.drafts.layout import DraftLayout
from specguide.errors import EngineError, InvalidParams
from specguide.guided.grammar_stream.buffers import GrammarBuffers
from specguide.slots import SlotNodes

PYTHON = dict(baseline="Python callbacks")


def make(folders, *, spec: bool = True, **options):
    """options: those of `baseline_llm`"""
    chains = SpecConfig(model=folders[1], num_draft_tokens=K) if spec else None
    return baseline_llm(folders[0], spec=chains, **options)


TOTALS = (
    "accepts",
    "fills",
    "rollbacks",
    "held",
    "late_draft_rows",
    "max_accepts",
    "max_fills",
    "max_rollbacks",
)


@pytest.mark.parametrize(
    ("spec", "lag"), [(True, 0), (True, 2), (False, 0)], ids=["spec", "lagging", "plain"]
)
@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20)], ids=["greedy", "sampled"]
)
def test_outputs_and_economy_are_those_of_native_callbacks(folders, params, spec, lag):
    prompts, all_params = cases(1, 16, **params)
    results = []
    for options in (dict(guide=GuideConfig(deadline_us=60_000_000)), PYTHON):
        llm = make(folders, spec=spec, lag=lag, max_batch_size=8, **options)
        outs = llm.generate(prompts, all_params)
        counters = llm.stats().grammar
        results.append(
            (
                told(outs),
                {name: counters[name] for name in TOTALS},
                set(counters),
                lag or counters["iterations"],
            )
        )  # how long the ended run along depends on who comes when
        assert counters["callback_ns"] > 0 and counters["busy_ns"] > 0
        llm._engine.check_integrity()
        llm.close()
    assert results[0] == results[1]


@pytest.mark.parametrize(("action", "words"), FAILURES)
@pytest.mark.parametrize(
    ("spec", "lag"), [(True, 0), (True, 1), (False, 0)], ids=["speculative", "lagging", "plain"]
)
def test_a_failing_matcher_ends_its_own_request(folders, action, words, spec, lag):
    native, python = (
        check_a_failing_matcher(make(folders, spec=spec, lag=lag, **options), action, words)
        for options in ({}, PYTHON)
    )
    assert native == python


def test_a_sleeping_matcher_delays_everyone(folders):
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=60, ignore_eos=True)] * 2
    llm = make(folders, **PYTHON)
    alone = llm.generate(prompts, params)
    outs, misfit = with_misfit(llm, Scripted("sleep", 3), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert misfit.metrics.num_held == 0 and misfit.error is None and len(misfit.output_ids) == 40
    assert min(out.metrics.total_s for out in outs) > 0.6
    llm.close()


class Rig:
    """An executor with K = 2 and its buffers, its callbacks run by a caller stream."""

    def __init__(self) -> None:
        cpu = torch.device("cpu")
        self.buffers = GrammarBuffers.allocate(2, 3, WORDS)
        self.nodes = SlotNodes.allocate(2, DraftLayout.chain(num_model=2), cpu)
        self.executor = PythonGrammarExecutor(self.buffers, self.nodes, VOCAB)
        self.stream = native.CallerStream("grammar")

    def run(self, started=None, continued=(), tokens=(), num_accepted=0) -> None:
        """One iteration of slot 0: callback 0, then one for each of `tokens` but the last, which
        callback 0 takes."""
        wrap = {
            slot: matcher and native.PythonMatcher(matcher, VOCAB)
            for slot, matcher in (started or {}).items()
        }
        self.executor.submit(list(wrap.items()), continued)
        callbacks = self.executor.callbacks()
        self.stream.launch(callbacks[0])
        self.nodes.num_accepted[0] = num_accepted
        for node, token in enumerate(tokens):
            self.nodes.tokens[0, node] = token
            if node + 1 < len(callbacks):
                self.stream.launch(callbacks[node + 1])

    def allowed(self, node: int) -> list[int]:
        bits = np.unpackbits(
            self.buffers.bitmask[node, 0].numpy().view(np.uint8), bitorder="little"
        )
        return [int(token) for token in np.flatnonzero(bits)]


def test_rows_flags_and_rollback() -> None:
    rig, matcher = Rig(), ChainMatcher()
    rig.run({0: matcher, 1: None}, tokens=(0, 1, 2))
    assert rig.allowed(0) == [1, END] and rig.allowed(1) == [2]
    rig.run(
        continued=(0, 1), tokens=(2, -1, -1), num_accepted=1
    )  # draft 1 accepted, draft 2 rejected, golden 2
    assert matcher.tokens == [-1, 0, 1, 2] and rig.allowed(0) == [3] and rig.allowed(2) == [3]
    assert (rig.buffers.fill_ids != 0).int().T.tolist() == [[1, 0, 1], [0, 0, 0]]
    counters = rig.executor.counters()
    assert (counters.fills, counters.accepts, counters.rollbacks, counters.iterations) == (
        5,
        4,
        1,
        2,
    )


def test_a_slot_that_the_step_held_keeps_its_path() -> None:
    rig, matcher = Rig(), ChainMatcher()
    rig.run({0: matcher}, tokens=(0, 1, 2))
    rig.run(continued=(0,), tokens=(0, 1, 2), num_accepted=-1)
    assert matcher.tokens == [-1, 0, 1, 2]
    rig.run(continued=(0,), tokens=(3, -1, -1), num_accepted=2)
    assert matcher.tokens == [-1, 0, 1, 2, 3] and rig.buffers.held[0] == 0


@pytest.mark.parametrize(
    ("num_accepted", "golden", "tokens"), [(2, 33, [-1, 0, END]), (0, 1, [-1, 0, 1])]
)
def test_an_end_token_among_the_drafts(num_accepted: int, golden: int, tokens: list[int]) -> None:
    rig, matcher = Rig(), ChainMatcher()
    rig.run({0: matcher}, tokens=(0, END, 17))
    rig.run(continued=(0,), tokens=(golden,), num_accepted=num_accepted)
    assert rig.executor.error(0) is None and matcher.tokens == tokens
    rig.run(continued=(0,))
    assert bool(rig.buffers.fill_ids[0, 0]) == (num_accepted == 0) and rig.buffers.held[0] == 0


def test_detaching_waits_for_the_matcher_and_frees_the_slot() -> None:
    rig = Rig()
    stream = native.HostStream("grammar")
    rig.executor.submit(
        [(0, native.PythonMatcher(ChainMatcher(lambda: time.sleep(0.2)), VOCAB))], ()
    )
    start = time.perf_counter()
    stream.launch(rig.executor.callbacks()[0])
    time.sleep(0.05)
    with pytest.raises(ValueError, match="slot 0 is busy"):
        rig.executor.submit([(0, None)], ())
    rig.executor.detach(0)
    assert time.perf_counter() - start > 0.15 and rig.executor.is_idle(0)
    with pytest.raises(ValueError, match="no request"):
        rig.executor.submit([], (0,))
    stream.synchronize()


def test_a_callback_without_a_snapshot_is_the_executors_error() -> None:
    rig = Rig()
    for callback in rig.executor.callbacks():
        rig.stream.launch(callback)
    with pytest.raises(EngineError, match="submit one for each iteration"):
        rig.executor.check()


def test_the_times_of_callbacks_are_kept_on_request() -> None:
    rig = Rig()
    rig.run({0: ChainMatcher()}, tokens=(0,))
    assert rig.executor.take_callback_spans() == []
    rig.executor.log_callbacks(8)
    rig.run(continued=(0,))
    assert [span[:2] for span in rig.executor.take_callback_spans()] == [(2, 0)]
    assert rig.executor.take_callback_spans() == []


@pytest.mark.parametrize("spec", [dict(tree=DynamicTree()), dict(num_forced_tokens=2)], ids=str)
def test_other_drafts_than_chains_of_a_model_are_refused(spec) -> None:
    with pytest.raises(InvalidParams, match="Python callbacks follow chains"):
        baseline_llm(None, "Python callbacks", spec=SpecConfig(**spec))


def test_iterations_that_draft_less_are_refused() -> None:
    rig = Rig()
    with pytest.raises(ValueError, match="follow all drafts"):
        rig.executor.submit([], (), iteration_limits=native.DraftLimits(num_draft_tokens=1))
