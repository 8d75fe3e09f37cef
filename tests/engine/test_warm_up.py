"""Warming up: where there are no graphs it does nothing, and iterations without requests leave no
trace."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from arrangements import ARRANGEMENTS, make_arranged
from device_tensors import device_tensors
from hypothesis import given
from hypothesis import strategies as st
from random_requests import cases
from tiny_engine import generate, make

from specguide import LLM, SpecConfig
from specguide.batch import Chunk, GuideSnapshot
from specguide.drafts.layout import IterationLayouts
from specguide.errors import EngineError
from specguide.params import SamplingParams
from specguide.speculation import OneModelStep, graphs
from specguide.speculation.batch_sampling import SamplingKind, all_used, graph_sizes
from specguide.speculation.graphs import CapturedIterations, EagerIterations
from specguide.speculation.prefill_plan import (
    PlanSize,
    PrefillPlan,
    captured_size,
    captured_sizes,
    pack,
)
from specguide.speculation.warm_up import decode_kinds, prefill_kinds, run_idle
from specguide.trace import Recorder


@pytest.mark.parametrize(
    ("max_batch_size", "sizes"), [(1, [1]), (2, [2, 1]), (6, [6, 4, 2, 1]), (8, [8, 4, 2, 1])]
)
def test_a_graph_for_each_power_of_two_and_for_all(max_batch_size, sizes):
    assert graph_sizes(max_batch_size) == sizes
    assert decode_kinds(max_batch_size) == [(size, kind) for size in sizes for kind in SamplingKind]


def test_prefills_of_each_power_of_two_and_of_one_more():
    kinds = [
        (len(chunks), len(chunks[0].token_ids), kind) for chunks, kind in prefill_kinds(6, 16, 12)
    ]
    greedy = [(number, length) for number, length, kind in kinds if kind is SamplingKind.GREEDY]
    assert greedy == sorted(
        {
            *((number, length) for number in (1, 2) for length in (1, 2, 4, 8)),
            *((4, length) for length in (1, 2, 4)),
            *((1, length) for length in (3, 5, 9, 12)),
            *((2, length) for length in (3, 5)),
            *((number, length) for number in (3, 5) for length in (1, 2, 3)),
            (3, 5),
            (6, 1),
            (6, 2),
        }
    )
    assert [kind for kind in kinds if kind[0] == 2 and kind[2] is not SamplingKind.GREEDY] == [
        (2, 1, kind) for kind in SamplingKind if kind is not SamplingKind.GREEDY
    ]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(1, 20))
def test_every_prefill_finds_room_in_a_captured_one_or_is_large(lens, max_batch_size):
    lens, num_tokens = lens[:max_batch_size], sum(lens[:max_batch_size])
    size = captured_size(len(lens), num_tokens, max_batch_size)
    if size is None:
        assert len(lens) > 16 or num_tokens > 2047
        return
    assert size in captured_sizes(max_batch_size, num_tokens)
    assert (
        size[0] <= max_batch_size
        and size[0] >= len(lens)
        and size[1] >= num_tokens + (size[0] > len(lens))
    )
    chunks = [Chunk([7] * length, 3 * place) for place, length in enumerate(lens)]
    size = PlanSize(*size)
    plan = PrefillPlan.of(torch.tensor([*pack(chunks, range(len(lens)), size, 99), -7]), size)
    assert plan.slots.tolist() == [*range(len(lens)), *[99] * (size[0] - len(lens))]
    assert plan.token_ids.tolist() == [7] * num_tokens + [0] * (size[1] - num_tokens)
    assert plan.bounds.diff().tolist() == [*lens, *[0] * (size[0] - len(lens))]
    assert plan.ends.tolist()[: len(lens)] == [chunk.end for chunk in chunks]
    assert all(node >= num_tokens for node in plan.nodes.tolist()[len(lens) :])


def test_empty_requests_behind_a_known_token_repeat_it():
    size = PlanSize(3, 2)
    plan = PrefillPlan.of(torch.tensor(pack([Chunk([7, 8], 0, 5)], [2], size, 99)), size)
    assert plan.nodes.tolist() == [1, 1, 1] and plan.known_next.tolist() == [5, 5, 5]


@pytest.mark.parametrize("max_batch_size", [1, 3, 4])
def test_iterations_of_fixed_sizes_give_what_exact_ones_give(folders, max_batch_size):
    prompts, params = cases(7, 11)
    prompts[3] = prompts[3] * 9  # too long for a captured prefill
    exact, fixed = (make(folders, max_batch_size=max_batch_size) for _ in range(2))
    fixed._engine._executor.step._sized.runner = EagerIterations()
    expected, found = (generate(llm, prompts, params) for llm in (exact, fixed))
    assert [out.token_ids for out in found] == [out.token_ids for out in expected]


@pytest.mark.parametrize("options", [dict(), dict(enforce_eager=True), dict(trace=True)], ids=str)
def test_nothing_to_do_on_a_cpu(folders, options, capsys):
    llm = make(folders, **options)
    before, device_state = llm.stats(), device_tensors(llm)
    llm.warm_up()
    assert llm.stats() == before and capsys.readouterr().err == ""
    for name, tensor in device_tensors(llm).items():
        assert torch.equal(tensor, device_state[name]), name
    llm.close()


def test_refused_while_requests_are_under_way(folders):
    llm = make(folders, lag=1)
    tokens = llm.generate([[40, 41]], SamplingParams(max_tokens=5))[0].token_ids
    engine, waiting = llm._engine, SamplingParams(max_tokens=50, stop_token_ids=[tokens[-1]])
    request = engine.add([40, 41], waiting)
    for _ in range(3):
        with pytest.raises(EngineError, match="no request is under way, found 1"):
            llm.warm_up()
        engine.step()
    while engine.num_unfinished:
        engine.step()
    assert request.error is None and engine._cycle.in_flight, (
        "the last iteration was launched before the host knew"
    )
    llm.warm_up()
    assert not engine._cycle.in_flight
    assert llm.generate([[40, 41]], waiting)[0].token_ids == tuple(request.output_ids)
    llm.close()


@pytest.mark.parametrize("name", ["one model", *ARRANGEMENTS])
@pytest.mark.parametrize("kind", SamplingKind)
def test_iterations_without_requests_leave_no_trace(folders, name, kind):
    prompts, params = cases(6, 8)
    llm = make_arranged(folders, max_batch_size=4, **ARRANGEMENTS.get(name, {}))
    expected = [out.token_ids for out in llm.generate(prompts, params)]
    before, stats = device_tensors(llm), llm.stats()
    step, grammar = llm._engine._executor.step, llm._engine._executor.grammar
    is_one = isinstance(step, OneModelStep)
    levels = (IterationLayouts(grammar.layout, grammar.layout),) if is_one else ()
    decode = step._sized.decode_leading if is_one else step._decode_leading
    for num_slots in (4, 1):
        run_idle(grammar, partial(decode, num_slots, kind, *levels))
    prefill = step._iteration.prefill_exactly if is_one else step._prefill_exactly
    for chunks, kind in prefill_kinds(4, 16, 8):
        sampling = all_used(kind, torch.device("cpu"))
        run_idle(grammar, partial(prefill, chunks, range(len(chunks)), sampling))
    if is_one:
        step._sized.runner = EagerIterations()
        for size in captured_sizes(4):
            run_idle(grammar, partial(step._sized.prefill, [], [], [], size))
        step._sized.runner = None
    assert grammar.errors(range(4)) == {}
    for name, tensor in device_tensors(llm).items():
        assert torch.equal(tensor, before[name]), name
    ours = {name: value for name, value in llm.stats().grammar.items() if name != "callback_ns"}
    assert ours == {name: value for name, value in stats.grammar.items() if name != "callback_ns"}
    assert [out.token_ids for out in generate(llm, prompts, params)] == expected


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_warm_up_runs_every_kind_that_can_be_captured(folders, adaptive):
    class Counting(CapturedIterations):
        """Captures nothing, as there is no GPU."""

        def __init__(self) -> None:
            self.kinds = Counter()

        def run(self, iterate, *sizes):
            self.kinds[(iterate.__name__, *sizes)] += 1
            return iterate(*sizes)

    spec = SpecConfig(model=folders[1], num_draft_tokens=3, adaptive=adaptive)
    llm = LLM(folders[0], spec=spec, max_batch_size=3, max_prefill_tokens=40)
    step = llm._engine._executor.step
    step._sized.runner = counting = Counting()
    llm.warm_up()
    layouts = step._grammar.layout.levels if adaptive else (step._grammar.layout,)
    levels = [IterationLayouts(*pair) for pair in product(layouts, repeat=2)]
    changing = {SamplingKind.SAMPLED, SamplingKind.SCORED}
    assert set(counting.kinds) == {
        ("decode_leading", num_slots, kind, pair)
        for num_slots, kind in decode_kinds(3)
        for pair in levels
        if pair.verified == pair.drafted or kind in changing
    } | {("_prefill_packed", *size) for size in captured_sizes(3, 40)}
    assert set(counting.kinds.values()) == {2}, "once eagerly, once to be captured"
    llm.close()


def test_fixed_sizes_use_every_parameter_of_sampling():
    for kind in SamplingKind:
        sampling = all_used(kind, torch.device("cpu"))
        named = [name for name, value in vars(sampling.used).items() if value is not None]
        assert sampling.kind is kind
        assert named == (
            ["seed"]
            if kind is SamplingKind.GREEDY
            else [field.name for field in fields(sampling.used)]
        )


def test_iterations_that_a_rehearsal_never_ran_are_forgotten(folders):
    """Where kernels are compiled and not launched, no callback takes its snapshot."""
    prompts, params = cases(3, 6)
    llm = make(folders, max_batch_size=4)
    expected = [out.token_ids for out in llm.generate(prompts, params)]
    executor = llm._engine._executor
    for _ in range(3):
        executor.grammar.submit(GuideSnapshot(started=(), continued=()))
    executor.step._forget_rehearsals()
    assert [out.token_ids for out in generate(llm, prompts, params)] == expected


def test_a_rehearsal_captures_nothing(monkeypatch):
    """Kernels are compiled then, not launched: a graph would be without them, for good."""
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    runner, ran = CapturedIterations(SimpleNamespace(device=None), Recorder()), []
    monkeypatch.setattr(graphs, "choosing", lambda *_: nullcontext())
    monkeypatch.setattr(runner, "_capture", lambda *_: pytest.fail("captured"))
    runner.run(ran.append, 1)
    monkeypatch.setattr(graphs, "is_rehearsing", lambda: True)
    runner.run(ran.append, 1)  # a kind that ran before
    runner.run(ran.append, 1)
    assert ran == [1, 1, 1]
