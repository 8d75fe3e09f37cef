"""Requests that are cancelled or too late, whether they compile, wait or run; and prompts with
several samples."""

from __future__ import annotations

import random
import shutil
import time

import pytest
from checkpoint_files import changed_json
from random_requests import cases
from tiny_engine import make

from specguide import LLM, Guide, SamplingParams
from specguide.engine.serving import wire
from specguide.errors import RequestTimeout
from specguide.guided.grammar_future import GrammarFuture


def run(engine):
    finished = []
    while engine.num_unfinished:
        finished += engine.step()
    return finished


def compiling(engine):
    """A request whose grammar never comes, and its future."""
    future, submit = GrammarFuture(), engine._admission.compiler.submit
    engine._admission.compiler.submit = lambda guide, room: future
    request = engine.add(
        [5, 6, 7], SamplingParams(max_tokens=40, guide=Guide(regex="a"), timeout_s=0.2)
    )
    engine._admission.compiler.submit = submit
    return request, future


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_random_cancels_lose_nothing_and_change_no_neighbour(folders, lag):
    llm, rng = make(folders, lag=lag, max_batch_size=4), random.Random(lag)
    engine, (prompts, params) = llm._engine, cases(11, 40)
    alone = llm.generate(prompts, params)
    requests = [
        engine.add(engine.prompt_ids(prompt), param)
        for prompt, param in zip(prompts, params, strict=True)
    ]
    cancelled, finished = set(), []
    while engine.num_unfinished:
        if rng.random() < 0.3:
            victim = rng.choice(requests)
            if victim.finish_reason is None:
                cancelled.add(victim)
            engine.cancel(victim)
        finished += engine.step()
        engine.check_integrity()
    assert sorted(one.request_id for one in finished) == sorted(one.request_id for one in requests)
    assert 5 < len(cancelled) < 35
    for one, out in zip(requests, alone, strict=True):
        if one in cancelled:
            assert one.finish_reason == "abort" and one.error is None
            assert tuple(one.output_ids) == out.token_ids[: len(one.output_ids)]
            assert out.text.rstrip("\ufffd").startswith(one.text.text.rstrip("\ufffd"))
        else:
            assert (tuple(one.output_ids), one.finish_reason) == (out.token_ids, out.finish_reason)
    assert [out.token_ids for out in llm.generate(prompts, params)] == [
        out.token_ids for out in alone
    ]
    llm.close()


def test_samples_share_the_prompt_they_have(folders):
    llm = make(folders)
    requests = []
    add, llm._engine.add = (
        llm._engine.add,
        lambda *args, **more: requests.append(add(*args, **more)) or requests[-1],
    )
    llm.generate([[5, 6, 7]], SamplingParams(max_tokens=2, n=3))
    assert len({id(one.prompt_ids) for one in requests}) == 1 < len(requests)
    sent = wire.AddRequest(1, requests[0].prompt_ids, "", 0, 0.0)
    assert wire.FROM_FRONT.decode(wire.ENCODER.encode(sent)) == sent
    llm.close()


def test_cancelling_a_compile(folders):
    llm = make(folders)
    request, future = compiling(llm._engine)
    llm._engine.cancel(request)
    assert (
        llm._engine.step() == [request] and request.finish_reason == "abort" and future.cancelled()
    )
    llm._engine.cancel(request)
    assert llm._engine.num_unfinished == 0 and llm._engine.step() == []
    llm.close()


def test_a_deadline_while_compiling(folders):
    llm, start = make(folders), time.perf_counter()
    request, _ = compiling(llm._engine)
    assert run(llm._engine) == [request]
    assert 0.19 < time.perf_counter() - start < 5 and request.finish_reason == "error"
    assert (
        isinstance(request.error, RequestTimeout)
        and request.error.ran_s == 0
        and request.error.waited_s > 0.19
    )
    assert "after timeout_s (0.2 s): it waited" in str(request.error) and "for its grammar" in str(
        request.error
    )
    llm.close()


def test_deadlines_while_waiting_and_running(folders):
    llm = make(folders, max_batch_size=1)
    engine, endless = llm._engine, dict(max_tokens=480, ignore_eos=True)
    llm.generate("ab", SamplingParams(max_tokens=2))
    first = engine.add([5] * 9, SamplingParams(timeout_s=0.3, **endless))
    second = engine.add([5] * 9, SamplingParams(timeout_s=0.05, **endless))
    third = engine.add([5] * 9, SamplingParams(timeout_s=60, max_tokens=3))
    assert run(engine) == [second, first, third]
    assert (
        isinstance(first.error, RequestTimeout)
        and isinstance(second.error, RequestTimeout)
        and third.error is None
    )
    assert first.error.ran_s > 0 and 0 < len(first.output_ids) < 480
    assert second.error.waited_s > 0.04 and second.error.ran_s == 0 and second.output_ids == []
    assert (
        third.metrics.queue_s > 0.2 > first.metrics.queue_s > 0
        and not engine._requests.deadlines._at_s
    )
    engine.check_integrity()
    llm.close()


def test_a_request_that_ends_in_time_leaves_no_deadline(folders):
    llm = make(folders)
    (out,) = llm.generate("ab", SamplingParams(max_tokens=3, timeout_s=30))
    assert (
        out.error is None
        and llm._engine._requests.deadlines.wait_s() == float("inf") == llm._engine.idle_s()
    )
    llm.close()


@pytest.mark.parametrize("prompt_len", [9, 600], ids=["cancelled", "refused"])
def test_what_has_ended_does_not_end_again_by_its_deadline(folders, prompt_len):
    llm = make(folders)
    request = llm._engine.add([5] * prompt_len, SamplingParams(timeout_s=0.01))
    llm._engine.cancel(request)
    reason, error = request.finish_reason, request.error
    time.sleep(0.02)
    assert llm._engine.step() == [request] and (request.finish_reason, request.error) == (
        reason,
        error,
    )
    assert sum(llm.stats().finished.values()) == 1 and llm._engine.step() == []
    llm.close()


def test_closing_ends_what_compiles(folders):
    llm = make(folders)
    request, _ = compiling(llm._engine)
    llm.close()
    assert request.finish_reason == "abort"


def test_a_negative_seed_is_one_of_its_own(folders):
    llm = make(folders, max_batch_size=4)
    params = [
        SamplingParams(max_tokens=12, temperature=1.5, ignore_eos=True, seed=seed)
        for seed in (-5, -5, 5, -(2**63))
    ]
    first, again, *others = (out.token_ids for out in llm.generate(["abc"] * 4, params))
    assert first == again and first not in others


def test_samples_have_seeds_of_their_own(folders):
    llm, params = make(folders), dict(max_tokens=12, temperature=1.0, ignore_eos=True)
    (one,) = llm.generate("abc", SamplingParams(seed=7, **params))
    many, other = llm.generate(["abc", "x"], SamplingParams(seed=7, n=4, **params))
    assert one.samples == (one,) and len(many.samples) == 4 and len(other.samples) == 4
    assert (
        many.samples[0].token_ids == one.token_ids
        and len({out.token_ids for out in many.samples}) == 4
    )
    (again,) = llm.generate("abc", SamplingParams(seed=7, n=2, **params))
    assert [out.token_ids for out in again.samples] == [out.token_ids for out in many.samples[:2]]
    (unseeded,) = llm.generate("abc", SamplingParams(n=3, **params))
    assert len({out.token_ids for out in unseeded.samples}) == 3
    (empty,) = llm.generate("", SamplingParams(n=3))
    assert empty.finish_reason == "error" and empty.samples == (empty,)
    llm.close()


@pytest.mark.parametrize("stop", [(), ("zz",)])
@pytest.mark.parametrize("guide", [None, Guide(regex="[a-d]{3,9}")])
def test_an_end_token_is_never_text(folders, tmp_path, stop, guide):
    """Also one that the tokenizer does not call special, as of models taught further."""
    target = shutil.copytree(folders[0], tmp_path / "target")
    with changed_json(target, "tokenizer.json") as tokenizer:
        added = tokenizer["added_tokens"]
        added.append(added[0] | {"id": 257, "content": "<|im_end|>", "special": False})
    (target / "generation_config.json").write_text('{"eos_token_id": [256, 257]}')
    params = SamplingParams(
        max_tokens=8, guide=guide, stop=stop, min_tokens=3, logit_bias={257: 50, 256: -100}
    )
    with LLM(target) as llm:
        [output] = llm.generate("ab", params)
        assert output.token_ids[-1] == 257 and output.finish_reason == "stop"
        assert output.text == llm.tokenizer.decode(output.token_ids[:-1])


@pytest.mark.parametrize("include", [False, True])
def test_a_text_ends_before_a_stop_token(folders, include):
    with make(folders) as llm:
        [whole] = llm.generate("ab", SamplingParams(max_tokens=8))
        stop = whole.token_ids[3]
        params = SamplingParams(
            max_tokens=8, stop_token_ids=[stop], include_stop_str_in_output=include
        )
        [output] = llm.generate("ab", params)
        ids = output.token_ids
        assert ids == whole.token_ids[: whole.token_ids.index(stop) + 1]
        assert output.stop_reason == stop
        assert output.text == llm.tokenizer.decode(ids if include else ids[:-1])
