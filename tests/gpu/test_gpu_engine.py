"""The engine on a GPU: captured decode iterations give what the same model gives plainly and what
it gives on a CPU."""

from __future__ import annotations

import json
from random import Random

import jsonschema
import pytest
import torch
from arrangements import make_arranged
from device_tensors import device_tensors
from drafted_iterations import iterations_of
from gpu_case import FP32
from misfits import (
    FAILURES,
    HOLDING,
    Scripted,
    check_a_failing_matcher,
    check_a_sleeping_matcher,
    with_misfit,
)
from random_requests import cases
from tiny_engine import K, make

from specguide import LLM, Guide, GuideConfig, SamplingParams
from specguide.speculation.batch_sampling import SamplingKind, graph_sizes
from specguide.speculation.prefill_plan import captured_sizes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
def test_speculation_and_capture_change_no_token(folders, params):
    prompts, all_params = cases(1, 60, **params)
    outputs = []
    for options in (
        dict(spec=True, **FP32),
        dict(spec=False, **FP32),
        dict(spec=True, device="cpu"),
    ):
        llm = make(folders, max_batch_size=8, **options)
        outputs.append([out.token_ids for out in llm.generate(prompts, all_params)])
        fixed = llm._engine._executor.step._sized.runner
        assert fixed is None or any(captured for captured in fixed._captured.values())
        llm._engine.check_integrity()
        llm.close()
    assert outputs[0] == outputs[1]
    same = sum(a == b for a, b in zip(outputs[0], outputs[2], strict=True))
    assert same >= len(prompts) - 2, "another device rounds otherwise, but random logits seldom tie"


def test_a_batch_gives_what_each_request_gives_alone(folders):
    prompts, all_params = cases(2, 12)
    llm = make(folders, max_batch_size=8, **FP32)
    alone = [
        llm.generate([prompt], [params])[0]
        for prompt, params in zip(prompts, all_params, strict=True)
    ]
    together = llm.generate(prompts, all_params)
    assert [out.token_ids for out in alone] == [out.token_ids for out in together]
    llm.close()


@pytest.mark.parametrize(
    "options",
    [dict(), dict(baseline="Python callbacks"), dict(baseline="two models")],
    ids=str,
)
@pytest.mark.parametrize(("action", "words"), FAILURES[:2])
def test_a_failing_matcher_ends_its_own_request(folders, action, words, options):
    check_a_failing_matcher(make_arranged(folders, **FP32, **options), action, words)


def test_a_sleeping_matcher_is_held(folders):
    outs, _ = check_a_sleeping_matcher(make(folders, guide=HOLDING, **FP32))
    assert outs[0].metrics.num_held == 0


@pytest.mark.parametrize("lag", [1, 2])
def test_a_matcher_that_sleeps_before_the_last_tokens(folders, lag):
    """The iterations of those beside it, in which it would be if it had not been held, leave it
    alone."""
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=400, ignore_eos=True)] * 2
    llm = make(folders, spec=False, guide=GuideConfig(deadline_us=2000), lag=lag, **FP32)
    _, awake = with_misfit(llm, Scripted("nap", 1000), prompts, params)
    for num_fills in [36, 37, 38, 39] * 3:
        _, asleep = with_misfit(llm, Scripted("nap", num_fills), prompts, params)
        assert asleep.metrics.num_held > 0 and asleep.error is None
        assert asleep.output_ids == awake.output_ids
    llm.close()


def captured(llm: LLM) -> list[object]:
    """The graphs of all kinds, once they are captured."""
    step = llm._engine._executor.step
    places = (
        [step._sized.runner]
        if hasattr(step, "_sized")
        else [step._target_chain, step._refresh_chain, step._draft_next]
    )
    return [
        graph
        for place in places
        for graph in getattr(place, "_captured", {}).values()
        if graph is not None
    ]


@pytest.mark.parametrize(
    "options", [dict(), dict(lag=0), dict(trace=True), dict(baseline="two models")], ids=str
)
def test_after_a_warm_up_nothing_is_captured(folders, options):
    cold, warm = (make_arranged(folders, max_batch_size=6, **options, **FP32) for _ in range(2))
    warm.warm_up()
    graphs, num_decodes, num_prefills = captured(warm), len(graph_sizes(6)), len(captured_sizes(6))
    limits = warm._engine._executor.step.piggyback_limits
    num_mixed = len(limits.beside(5).sizes)  # beside all six slots
    num_each = 2 if options.get("trace") else 1  # a set for each turn of the recorder
    assert len(graphs) == (
        3 * num_decodes
        if "baseline" in options
        else num_each * (len(SamplingKind) * num_decodes + num_prefills + num_mixed)
    )
    for num_prompts in range(1, 8):
        for params in (dict(), dict(temperature=0.8, top_p=0.95)):
            prompts, all_params = cases(num_prompts, num_prompts, **params)
            expected = [out.token_ids for out in cold.generate(prompts, all_params)]
            assert [out.token_ids for out in warm.generate(prompts, all_params)] == expected
            assert captured(warm) == graphs
    warm.warm_up()
    assert captured(warm) == graphs
    for llm in (cold, warm):
        llm.close()


@pytest.mark.parametrize("baseline", [None, "two models"])
def test_after_a_warm_up_nothing_is_compiled(folders, baseline, monkeypatch):
    llm, random = make_arranged(folders, max_batch_size=12, baseline=baseline), Random(1)
    llm.warm_up()
    compiled: list[str] = []
    runtime = pytest.importorskip("triton").knobs.runtime
    monkeypatch.setattr(runtime, "jit_cache_hook", lambda *, fn, **_: compiled.append(fn.name))
    for num_prompts in (1, 2, 3, 5, 7, 9, 12):
        for longest in (1, 3, 7, 20, 50, 90):
            lengths = [random.randint(1, longest) for _ in range(num_prompts)]
            prompts = [[random.randrange(3, 200) for _ in range(length)] for length in lengths]
            for params in (
                dict(),
                dict(temperature=0.8, top_k=5),
                dict(repetition_penalty=1.2),
                dict(logprobs=2),
            ):
                llm.generate(prompts, SamplingParams(max_tokens=5, **params))
    assert compiled == []
    llm.close()


def test_a_warm_up_leaves_no_trace(folders):
    llm = make(folders, max_batch_size=6, **FP32)
    prompts, params = cases(3, 9)
    expected = [out.token_ids for out in llm.generate(prompts, params)]
    torch.cuda.synchronize()
    before, grammar = device_tensors(llm), llm.stats().grammar
    before.pop("bitmask")  # a row that came too late to be read is copied with the next ones
    llm.warm_up()
    assert {**llm.stats().grammar, "callback_ns": 0} == {**grammar, "callback_ns": 0}
    after = device_tensors(llm)
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert [out.token_ids for out in llm.generate(prompts, params)] == expected
    llm.close()


@pytest.mark.parametrize("baseline", [None, "two models"])
def test_eager_iterations_give_what_graphs_give(folders, baseline):
    prompts, params = cases(7, 20)
    outputs = []
    for enforce_eager in (True, False):
        llm = make_arranged(
            folders, max_batch_size=6, baseline=baseline, enforce_eager=enforce_eager, **FP32
        )
        llm.warm_up()
        outputs.append([out.token_ids for out in llm.generate(prompts, params)])
        assert bool(captured(llm)) != enforce_eager
        llm.close()
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    "options", [dict(), dict(lag=0), dict(trace=True), dict(baseline="two models")], ids=str
)
def test_drafts_belong_to_the_tokens_they_were_verified_with(folders, options):
    """A replay drafts the next ones before the host reads those that it verified."""
    prompts, params = cases(31, 40)
    patient = GuideConfig(
        deadline_us=60_000_000, target_wait_us=60_000_000, draft_wait_us=60_000_000
    )
    engine = dict(max_batch_size=8, guide=patient, **options, **FP32)
    eager = iterations_of(make_arranged(folders, enforce_eager=True, **engine), prompts, params)
    drafted = [
        (accepted, drafts) for iterations in eager for drafts, accepted, _ in iterations if drafts
    ]
    assert {accepted for accepted, _ in drafted} == set(range(K + 1))
    llm = make_arranged(folders, **engine)
    llm.warm_up()
    assert captured(llm)
    assert iterations_of(llm, prompts, params) == eager


def test_the_shipped_model_in_bfloat16():
    llm = LLM(device="cuda")
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["city", "year"],
        "additionalProperties": False,
    }
    (out,) = llm.chat(
        [{"role": "user", "content": "The bridge in Riga was opened in 1932."}],
        SamplingParams(max_tokens=64, guide=Guide(json_schema=schema)),
    )
    jsonschema.validate(json.loads(out.text), schema)
    assert out.finish_reason == "stop" and out.metrics.acceptance_length > 1.5
    llm.close()
