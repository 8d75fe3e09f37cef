"""Warming up: where there are no graphs it does nothing, and iterations without requests leave no trace."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from test_engine import cases, make
from test_two_model import ARRANGEMENTS
from test_two_model import make as make_arranged

from specguide.errors import EngineError
from specguide.params import SamplingParams
from specguide.spec.graphs import EagerDecode, fixed_arguments
from specguide.spec.selection import SamplingKind, graph_sizes
from specguide.spec.warm_up import graph_kinds, prefill_kinds, run_idle


@pytest.mark.parametrize(("max_batch_size", "sizes"), [(1, [1]), (2, [2, 1]), (6, [6, 4, 2, 1]), (8, [8, 4, 2, 1])])
def test_a_graph_for_each_power_of_two_and_for_all(max_batch_size, sizes):
    assert graph_sizes(max_batch_size) == sizes
    assert graph_kinds(max_batch_size) == [(size, kind) for size in sizes for kind in SamplingKind]


def test_prefills_of_all_powers_of_two():
    kinds = prefill_kinds(6, 16, 12)
    assert [(number, length) for number, length, kind in kinds if kind is SamplingKind.GREEDY] == [
        (1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (2, 8), (4, 1), (4, 2), (4, 4)]
    assert [kind for kind in kinds if kind[0] == 2 and kind[2] is not SamplingKind.GREEDY] == [
        (2, 1, kind) for kind in SamplingKind if kind is not SamplingKind.GREEDY]


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
    engine, waiting = llm._engine, SamplingParams(max_tokens=5)
    request = engine.add([5, 6, 7], waiting)
    for _ in range(3):
        with pytest.raises(EngineError, match="1 are under way"):
            llm.warm_up()
        engine.step()
    while engine.num_unfinished:
        engine.step()
    assert request.error is None and engine._in_flight, "the last iteration was launched before the host knew"
    llm.warm_up()
    assert not engine._in_flight
    assert llm.generate([[5, 6, 7]], waiting)[0].token_ids == tuple(request.output_ids)
    llm.close()


@pytest.mark.parametrize("name", ["one model", *ARRANGEMENTS])
@pytest.mark.parametrize("kind", SamplingKind)
def test_iterations_without_requests_leave_no_trace(folders, name, kind):
    prompts, params = cases(6, 8)
    llm = make_arranged(folders, max_batch_size=4, **ARRANGEMENTS.get(name, {}))
    expected = [out.token_ids for out in llm.generate(prompts, params)]
    before, stats = device_tensors(llm), llm.stats()
    step, guide = llm._engine._runner.step, llm._engine._runner.guide
    with torch.inference_mode():
        for num_slots in (4, 1):
            step._num_slots = num_slots
            decode = EagerDecode(step._decode, torch.device("cpu"))
            run_idle(guide, lambda decode=decode, num_slots=num_slots: decode.run(num_slots, kind))
        for num_requests, num_tokens, kind in prefill_kinds(4, 16, 8):
            step.warm_up_prefill(num_requests, num_tokens, kind)
    assert guide.errors(range(4)) == {}
    for name, tensor in device_tensors(llm).items():
        assert torch.equal(tensor, before[name]), name
    ours = {name: value for name, value in llm.stats().grammar.items() if name != "callback_ns"}
    assert ours == {name: value for name, value in stats.grammar.items() if name != "callback_ns"}
    assert [out.token_ids for out in llm.generate(prompts, params)] == expected
    llm._engine.check_integrity()
    llm.close()


def test_fixed_arguments_name_every_parameter_of_sampling():
    for kind in SamplingKind:
        slots, sampling = fixed_arguments(3, kind, torch.device("cpu"))
        assert slots == slice(0, 3) and sampling.kind is kind
        given = [name for name, value in vars(sampling.used).items() if value is not None]
        assert given == (["seed"] if kind is SamplingKind.GREEDY else [field.name for field in fields(sampling.used)])


def device_tensors(llm) -> dict[str, torch.Tensor]:
    """Copies of all that outlasts an iteration, but for the accept counts, which each iteration writes anew."""
    step = llm._engine._runner.step
    state, passes, buffers = step._state, step._passes, step._guide.buffers
    tensors = {name: getattr(state, name) for name in ("active", "lengths", "max_lens", "end_ids", "block_table")}
    tensors |= {f"sampling.{name}": value for name, value in vars(state.sampling).items()}
    tensors |= {f"adjustments.{name}": value for name, value in vars(state.adjustments).items()}
    tensors |= {name: getattr(buffers, name) for name in ("bitmask", "guided", "held", "tokens")}
    for name, cache in (("target", passes._cache), ("drafter", passes._drafter.cache)):
        tensors |= {f"{name} key {i}": keys for i, keys in enumerate(cache.keys)}
        tensors |= {f"{name} value {i}": values for i, values in enumerate(cache.values)}
    return {name: tensor.clone() for name, tensor in tensors.items()}
