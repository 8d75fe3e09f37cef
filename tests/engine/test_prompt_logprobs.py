"""Log-probabilities of prompts end to end: those of a plain forward of the model, however the
prompt is computed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch
from adjusted_requests import SAMPLED, asking, told
from arrangements import ARRANGEMENTS, make_arranged
from tiny_engine import generate, make
from transformers import LlamaForCausalLM

from specguide import CacheConfig, SamplingParams
from specguide.engine import AsyncEngine
from specguide.speculation import passes

MARGIN = 5e-4
"""Most by which log-probabilities of passes of other shapes may differ; single precision is 1e-4
off with these weights."""


@pytest.fixture(scope="module")
def model(folders):
    return LlamaForCausalLM.from_pretrained(folders[0], dtype=torch.float64)


def check(model, prompt_ids, num, found) -> None:
    """Check that they are those of a plain forward, and the ranks too, up to tokens that are as
    good as equally likely."""
    with torch.inference_mode():
        expected = model(torch.tensor([prompt_ids])).logits[0].log_softmax(-1)
    assert len(found) == len(prompt_ids) and found[0] is None
    for token, entry, row in zip(prompt_ids[1:], found[1:], expected, strict=False):
        own = entry[token].rank
        assert sorted(one.rank for one in entry.values()) == [
            *range(1, num + 1),
            *([own] if own > num else []),
        ]
        for one, logprob in entry.items():
            assert logprob.logprob == pytest.approx(float(row[one]), abs=MARGIN)
            least, most = (int((row >= row[one] + margin).sum()) for margin in (MARGIN, -MARGIN))
            assert least <= logprob.rank <= most


def check_all(model, llm, prompts, all_params, outputs) -> None:
    for prompt, params, out in zip(prompts, all_params, outputs, strict=True):
        if params.prompt_logprobs is None:
            assert out.prompt_logprobs is None
        else:
            check(model, llm.tokenizer.encode(prompt), params.prompt_logprobs, out.prompt_logprobs)
            assert out.metrics.num_cached == 0 or out.metrics.num_preemptions


@pytest.mark.parametrize(
    ("spec", "lag", "max_prefill_tokens"),
    [(False, 0, 3), (False, 0, 2048), (True, 0, 16), (True, 1, 3), (True, 1, 2048), (True, 2, 50)],
)
def test_they_are_those_of_a_plain_forward(folders, model, spec, lag, max_prefill_tokens):
    prompts, all_params = asking(1, 12, **SAMPLED)
    llm = make(folders, spec=spec, lag=lag, max_batch_size=6, max_prefill_tokens=max_prefill_tokens)
    without = llm.generate(prompts, [replace(one, prompt_logprobs=None) for one in all_params])
    outputs = llm.generate(prompts, all_params)
    check_all(model, llm, prompts, all_params, outputs)
    assert [told(out) for out in outputs] == [told(out) for out in without]
    assert [out.logprobs is None for out in outputs] == [one.logprobs is None for one in all_params]
    llm._engine.check_integrity()
    llm.close()


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_other_arrangements(folders, model, name):
    prompts, all_params = asking(2, 12)
    llm = make_arranged(folders, max_batch_size=6, max_prefill_tokens=40, **ARRANGEMENTS[name])
    check_all(model, llm, prompts, all_params, llm.generate(prompts, all_params))
    llm.close()


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("max_prefill_tokens", [5, 32])
def test_requests_that_lose_their_pages_keep_them(folders, model, lag, max_prefill_tokens):
    prompts = [chr(97 + number) * 9 + "some longer prompt " * 3 for number in range(9)]
    all_params = [SamplingParams(max_tokens=60, ignore_eos=True, prompt_logprobs=2)] * 9
    llm = make(
        folders,
        lag=lag,
        max_batch_size=8,
        max_prefill_tokens=max_prefill_tokens,
        cache=CacheConfig(page_size=4, num_pages=70),
    )
    outputs = llm.generate(prompts, all_params)
    assert sum(out.metrics.num_preemptions for out in outputs) > 3
    check_all(model, llm, prompts, all_params, outputs)
    llm._engine.check_integrity()
    llm.close()


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("num_steps", range(1, 7))
def test_whenever_a_request_loses_its_pages(folders, model, lag, num_steps):
    """Pages are lost between two chunks, too, and while the results of one are still under way."""
    llm = make(folders, lag=lag, max_prefill_tokens=8, cache=CacheConfig(page_size=4))
    engine, prompt_ids = llm._engine, list(range(40, 75))
    request = engine.add(prompt_ids, SamplingParams(max_tokens=4, prompt_logprobs=3))
    for _ in range(num_steps):
        engine.step()
    placement = engine._scheduler._placement
    placement.preempt(engine._scheduler._sequences[request.request_id])
    engine._requests.release(placement.take_released())
    num_had = len(request.prompt_logprobs)
    while engine.num_unfinished:
        engine.step()
    assert 1 <= num_had <= len(prompt_ids) and request.metrics.num_preemptions == 1
    check(model, prompt_ids, 3, request.prompt_logprobs)
    while engine._cycle.in_flight:
        engine.step()
    llm.close()


def test_pages_are_published_but_not_taken(folders, model):
    llm = make(folders)
    prompt, asks = (
        "a prompt that is longer than two pages of sixteen",
        SamplingParams(max_tokens=4, prompt_logprobs=1),
    )
    num_cached = []
    for params in (asks, asks, SamplingParams(max_tokens=4), asks):
        (out,) = llm.generate(prompt, params)
        check_all(model, llm, [prompt], [params], [out])
        num_cached.append(out.metrics.num_cached)
    assert num_cached == [0, 0, 48, 0]
    llm._engine.check_integrity()
    llm.close()


def test_logits_come_in_blocks(folders, model, monkeypatch):
    monkeypatch.setattr(passes, "_MOST_SCORED", 3 * 272)
    llm = make(folders)
    prompts, all_params = asking(4, 9)
    check_all(model, llm, prompts, all_params, llm.generate(prompts, all_params))
    llm.close()


def test_ends_of_the_range(folders, model):
    llm = make(folders)
    params = SamplingParams(max_tokens=3, prompt_logprobs=0, n=2)
    one, two = llm.generate([[7], [7, 8]], params)
    assert one.prompt_logprobs == (None,) and one.samples[1].prompt_logprobs is None
    check(model, [7, 8], 0, two.prompt_logprobs)
    long = llm.generate(
        [list(range(250)) * 2 + [5] * 11], SamplingParams(max_tokens=9, prompt_logprobs=1)
    )[0]
    assert len(long.prompt_logprobs) == 511 and long.finish_reason in ("length", "stop")
    llm.close()


def test_a_request_that_ends_early_has_fewer(folders, model):
    llm = make(folders, max_prefill_tokens=8)
    request = llm._engine.add(list(range(40)), SamplingParams(prompt_logprobs=1))
    for _ in range(2):
        llm._engine.step()
    llm._engine.cancel(request)
    assert llm._engine.step() == [request] and len(request.prompt_logprobs) == 17
    llm.close()


def test_streams_have_them_first(folders):
    params = SamplingParams(
        max_tokens=12, prompt_logprobs=2, ignore_eos=True, n=2, seed=1, temperature=1.0
    )
    (blocking,) = generate(make(folders, max_prefill_tokens=8), "some text, streamed", params)

    async def stream(pause_s: float):
        async with AsyncEngine(make(folders, max_prefill_tokens=8)._engine) as engine:
            deltas = []
            async for delta in engine.generate("some text, streamed", params):
                deltas.append(delta)
                await asyncio.sleep(pause_s)
            return deltas

    for pause_s in (0, 0.05):
        deltas = asyncio.run(stream(pause_s))
        first, *others = [delta for delta in deltas if delta.index == 0]
        assert first.prompt_logprobs == blocking.prompt_logprobs
        assert all(
            delta.prompt_logprobs is None
            for delta in (*others, *(d for d in deltas if d.index == 1))
        )
