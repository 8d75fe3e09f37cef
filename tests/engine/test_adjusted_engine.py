"""Adjusted logits and log-probabilities end to end: a naive plain step, and speculation that
changes nothing."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import lru_cache

import pytest
import torch
from adjusted_requests import ADJUSTMENTS, SAMPLED, mixed, told
from arrangements import ARRANGEMENTS, make_arranged
from hypothesis import given, settings
from hypothesis import strategies as st
from random_requests import cases
from tiny import VOCAB_SIZE
from tiny_engine import generate, make
from traffic import Late
from transformers import LlamaForCausalLM

from specguide import Guide, GuideConfig, SamplingParams
from specguide.errors import InvalidParams, RequestError


@pytest.fixture(scope="module")
def engines(folders):
    """Plain, and speculating with lag 0 and 1."""
    llms = [
        make(folders, max_batch_size=6, spec=spec, lag=lag)
        for spec, lag in ((False, 0), (True, 0), (True, 1))
    ]
    yield llms
    for llm in llms:
        llm._engine.check_integrity()
        llm.close()


@pytest.fixture(scope="module")
def unadjusted(engines):
    """What the same requests output without adjustments, by parameters."""

    @lru_cache
    def of(**params):
        return [told(out) for out in engines[1].generate(*mixed(3, 12, {}, **params))]

    return of


@pytest.mark.parametrize("params", [dict(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_speculation_changes_no_token(engines, unadjusted, name, params):
    prompts, all_params = mixed(3, 12, ADJUSTMENTS[name], **params)
    plain, *speculative = (llm.generate(prompts, all_params) for llm in engines)
    for outputs in speculative:
        assert [told(out) for out in outputs] == [told(out) for out in plain]
        assert any(out.metrics.acceptance_length > 1.2 for out in outputs)
    same = [told(out) == other for out, other in zip(plain, unadjusted(**params), strict=True)]
    assert all(same[number] for number in range(12) if number % 4 >= 2), "neighbours do not notice"
    assert not all(same)


@pytest.mark.parametrize("lag", [0, 1])
def test_held_requests_lose_and_count_nothing(folders, engines, lag):
    prompts, all_params = mixed(6, 16, ADJUSTMENTS["all"], **SAMPLED)
    all_params[1] = replace(all_params[1], guide=Guide(matcher=Late))
    expected = [told(out) for out in engines[0].generate(prompts, all_params)]
    llm = make(folders, max_batch_size=6, lag=lag, guide=GuideConfig(deadline_us=100))
    outputs = generate(llm, prompts, all_params)
    assert [told(out) for out in outputs] == expected
    assert outputs[1].metrics.num_held


NUMBERS = dict(
    repetition_penalty=st.sampled_from([0.6, 1.0, 1.5]),
    presence_penalty=st.floats(-2, 2),
    frequency_penalty=st.floats(-2, 2),
    min_tokens=st.integers(0, 12),
    logit_bias=st.dictionaries(st.integers(0, 271), st.integers(-100, 100), max_size=9),
    bad_words=st.lists(st.text('abtrue "1', min_size=1, max_size=3).filter(str.strip), max_size=3),
    allowed_token_ids=st.none() | st.sets(st.integers(0, 271), min_size=200),
    logprobs=st.none() | st.just(2),
    temperature=st.sampled_from([0.0, 1.0]),
    guide=st.none()
    | st.sampled_from([Guide(choice=["true", "truer", "tab"]), Guide(regex='[a-c"]{2,20}')]),
)


@settings(max_examples=12)
@given(all_params=st.lists(st.fixed_dictionaries({}, optional=NUMBERS), min_size=1, max_size=6))
def test_any_parameters(engines, all_params):
    params = [
        SamplingParams(max_tokens=14, seed=number, **one) for number, one in enumerate(all_params)
    ]
    plain, *speculative = (
        llm.generate(["true tab a"[: number + 3] for number in range(len(params))], params)
        for llm in engines
    )
    for outputs in speculative:
        assert [told(out) for out in outputs] == [told(out) for out in plain]


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_other_arrangements(folders, engines, name):
    prompts, all_params = mixed(3, 12, ADJUSTMENTS["all"], **SAMPLED)
    all_params = [
        replace(one, logprobs=number % 3 or None) for number, one in enumerate(all_params)
    ]
    expected = [told(out) for out in engines[0].generate(prompts, all_params)]
    llm = make_arranged(folders, max_batch_size=6, **ARRANGEMENTS[name])
    assert [told(out) for out in generate(llm, prompts, all_params)] == expected


@pytest.mark.parametrize("name", ["repetition", "presence", "frequency", "bias", "allowed", "all"])
def test_against_a_naive_plain_step(folders, engines, name):
    """Greedy decoding with the model's reference implementation and the formulas as they are
    written down."""
    model, adjustment = (
        LlamaForCausalLM.from_pretrained(folders[0]),
        SamplingParams(**ADJUSTMENTS[name]),
    )
    rng, outputs = random.Random(name), []
    params = replace(adjustment, max_tokens=16, bad_words=(), ignore_eos=True, min_tokens=0)
    prompts = [[rng.randrange(256) for _ in range(rng.randint(1, 20))] for _ in range(2)]
    for prompt in prompts:
        output: list[int] = []
        for _ in range(params.max_tokens):
            with torch.no_grad():
                logits = model(torch.tensor([prompt + output])).logits[0, -1]
            for token in range(VOCAB_SIZE):
                if params.allowed_token_ids is not None and token not in params.allowed_token_ids:
                    logits[token] = -torch.inf
                logits[token] += (params.logit_bias or {}).get(token, 0)
                if token in prompt + output:
                    penalty = params.repetition_penalty
                    logits[token] = (
                        logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
                    )
                logits[token] -= params.frequency_penalty * output.count(token)
                logits[token] -= params.presence_penalty * (token in output)
            output.append(int(logits.argmax()))
        outputs.append(tuple(output))
    for llm in engines:
        assert [out.token_ids for out in llm.generate(prompts, params)] == outputs


def test_rules_hold(engines):
    """Parameters that forbid, on hot samples of many tokens."""
    plain, speculative, _ = engines
    hot = dict(temperature=1.5, seed=4, ignore_eos=True)
    words = ["e", "ab", "Xyz"]
    for llm in (plain, speculative):
        (out,) = llm.generate(
            "ab",
            SamplingParams(
                max_tokens=300,
                bad_words=words,
                logit_bias={token: 6 for token in llm.tokenizer.encode("eabXyz")},
                **hot,
            ),
        )
        assert not any(word in out.text for word in words) and "Xy" in out.text and "a" in out.text
        (out,) = llm.generate(
            "ab", SamplingParams(max_tokens=60, allowed_token_ids=(70, 71, 75), **hot)
        )
        assert set(out.token_ids) == {70, 71, 75}
        for min_tokens in (0, 1, 7, 8):
            (out,) = llm.generate(
                "ab",
                SamplingParams(
                    max_tokens=40,
                    min_tokens=min_tokens,
                    temperature=1.0,
                    seed=1,
                    logit_bias={256: 100},
                    stop_token_ids=range(60),
                ),
            )
            assert (len(out.token_ids), out.finish_reason) == (min_tokens + 1, "stop")


def test_a_grammar_may_end_before_the_least_length(engines):
    for llm in engines:
        short, longer = llm.generate(
            ["ab"] * 2,
            [
                SamplingParams(max_tokens=20, min_tokens=10, guide=Guide(choice=["yes"])),
                SamplingParams(
                    max_tokens=20, min_tokens=6, guide=Guide(regex="a{2,9}"), logit_bias={256: 100}
                ),
            ],
        )
        assert (short.text, short.finish_reason) == ("yes", "stop")
        assert (longer.text, longer.finish_reason) == ("aaaaaa", "stop")


def test_what_leaves_nothing_is_named(engines):
    guide = Guide(choice=["yes"])
    for llm in engines:
        a, b, c, d, e = llm.generate(
            ["ab"] * 5,
            [
                SamplingParams(max_tokens=9, guide=guide, allowed_token_ids=(3, 256)),
                SamplingParams(max_tokens=9, guide=guide, bad_words=["es"]),
                SamplingParams(max_tokens=9, min_tokens=3, allowed_token_ids=(256,)),
                SamplingParams(max_tokens=9, guide=guide),
                SamplingParams(max_tokens=9, allowed_token_ids=(272,)),
            ],
        )
        for out, words in (
            (a, "after 0 tokens.*forbidden by (the grammar and )?allowed_token_ids"),
            (b, "after 2 tokens.*forbidden by (the grammar and )?bad_words"),
            (c, "every token is forbidden by allowed_token_ids and min_tokens"),
        ):
            assert isinstance(out.error, RequestError) and re.search(words, str(out.error)), (
                out.error
            )
        assert (
            d.text == "yes"
            and isinstance(e.error, InvalidParams)
            and e.error.param == "allowed_token_ids"
        )


@pytest.mark.parametrize("params", [dict(), SAMPLED], ids=["greedy", "sampled"])
def test_log_probabilities_are_the_models_own(folders, engines, params):
    model = LlamaForCausalLM.from_pretrained(folders[0])
    prompts, all_params = mixed(5, 16, ADJUSTMENTS["all"], **params)
    wanted = [None if number % 3 == 2 else number for number in range(16)]
    all_params = [replace(one, logprobs=num) for one, num in zip(all_params, wanted, strict=True)]
    without = engines[1].generate(prompts, [replace(one, logprobs=None) for one in all_params])
    for llm in engines:
        for prompt, num, out, other in zip(
            prompts, wanted, llm.generate(prompts, all_params), without, strict=True
        ):
            assert told(out) == told(other)
            if num is None:
                assert out.logprobs is None
                continue
            prompt_ids = llm.tokenizer.encode(prompt)
            with torch.inference_mode():
                logits = model(torch.tensor([prompt_ids + list(out.token_ids)])).logits[
                    0, len(prompt_ids) - 1 : -1
                ]
            assert len(out.logprobs) == len(out.token_ids)
            for token, entry, expected in zip(
                out.token_ids, out.logprobs, logits.log_softmax(-1), strict=True
            ):
                top = expected.topk(num).indices.tolist()
                assert entry.keys() == {*top, token}
                assert entry[token].rank == int((expected >= expected[token]).sum())
                assert [entry[one].rank for one in top] == list(range(1, num + 1))
                for one, found in entry.items():
                    assert found.logprob == pytest.approx(float(expected[one]), abs=1e-4)


def test_nobody_pays_for_what_nobody_asks(folders):
    llm = make(folders, max_batch_size=4)
    state = llm._engine._executor.step._state
    llm.generate(*cases(2, 6))
    assert "adjustments" not in vars(state)
    llm.generate("ab", SamplingParams(max_tokens=3, presence_penalty=1.0))
    assert "adjustments" in vars(state)
    llm.close()
