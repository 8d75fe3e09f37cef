"""Logits processors end to end: a naive plain step, speculation that changes nothing, and failures
of one's own."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache, partial

import pytest
import torch
from adjusted_requests import SAMPLED, told
from arrangements import ARRANGEMENTS, make_arranged
from logits_processors import PROCESSORS, alternate, echo, fails_after, no_repeat, processed, raises
from tiny import VOCAB_SIZE
from tiny_engine import generate, make
from traffic import Late
from transformers import LlamaForCausalLM

from specguide import CacheConfig, Guide, GuideConfig, SamplingParams
from specguide.errors import RequestError


@pytest.fixture(scope="module")
def engines(folders):
    """Plain, and speculating with lag 0, 1 and 2."""
    llms = [
        make(folders, max_batch_size=6, spec=spec, lag=lag)
        for spec, lag in ((False, 0), (True, 0), (True, 1), (True, 2))
    ]
    yield llms
    for llm in llms:
        llm._engine.check_integrity()
        llm.close()


@pytest.fixture(scope="module")
def without(engines):
    """What the same requests output without processors, by parameters."""

    @lru_cache
    def of(**params):
        prompts, all_params = processed("several", 1, 14, **params)
        bare = [replace(one, logits_processors=()) for one in all_params]
        return [told(out) for out in engines[1].generate(prompts, bare)]

    return of


@pytest.mark.parametrize("params", [dict(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_speculation_changes_no_token(engines, without, name, params):
    prompts, all_params = processed(name, 1, 14, **params)
    plain, *speculative = (llm.generate(prompts, all_params) for llm in engines)
    for outputs in speculative:
        assert [told(out) for out in outputs] == [told(out) for out in plain]
        assert any(
            out.metrics.acceptance_length > 1.2
            for out, one in zip(outputs, all_params, strict=True)
            if one.logits_processors
        )
    assert all("logits_processors, or the model" in str(out.error) for out in plain if out.error)
    assert (
        sum(
            out.error is None
            for out, one in zip(plain, all_params, strict=True)
            if one.logits_processors
        )
        > 4
    )
    same = [told(out) == other for out, other in zip(plain, without(**params), strict=True)]
    assert all(same[number] for number in range(14) if number % 4 >= 2), "neighbours do not notice"
    assert not all(same)


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_other_arrangements(folders, engines, name):
    prompts, all_params = processed("several", 3, 12, **SAMPLED)
    expected = [told(out) for out in engines[0].generate(prompts, all_params)]
    llm = make_arranged(folders, max_batch_size=6, lag=1, **ARRANGEMENTS[name])
    assert [told(out) for out in generate(llm, prompts, all_params)] == expected


@pytest.mark.parametrize(
    ("options", "happened"),
    [
        (dict(guide=GuideConfig(deadline_us=100)), "num_held"),
        (dict(max_prefill_tokens=7), None),
        (dict(cache=CacheConfig(page_size=4, num_pages=36)), "num_preemptions"),
    ],
    ids=["held", "chunks", "preempted"],
)
def test_whatever_happens_to_them(folders, engines, options, happened):
    prompts, all_params = processed("several", 6, 16, **SAMPLED)
    all_params[1] = replace(all_params[1], guide=Guide(matcher=Late))
    expected = [told(out) for out in engines[0].generate(prompts, all_params)]
    for lag in (0, 1):
        outputs = generate(make(folders, max_batch_size=6, lag=lag, **options), prompts, all_params)
        assert [told(out) for out in outputs] == expected
        assert happened is None or any(getattr(out.metrics, happened) for out in outputs)


@pytest.mark.parametrize("name", PROCESSORS)
def test_against_a_naive_plain_step(folders, engines, name):
    """Greedy, with penalties and a bias, which come after the processors."""
    model, rng = LlamaForCausalLM.from_pretrained(folders[0]), random.Random(name)
    params = SamplingParams(
        max_tokens=20,
        ignore_eos=True,
        logits_processors=PROCESSORS[name],
        logit_bias={97: 2},
        repetition_penalty=1.3,
    )
    prompts = [[rng.randrange(256) for _ in range(rng.randint(2, 20))] for _ in range(4)]
    outputs = []
    for prompt in prompts:
        output = []
        for _ in range(params.max_tokens):
            with torch.no_grad():
                logits = model(torch.tensor([prompt + output])).logits[0, -1]
            for processor in params.logits_processors:
                logits = (
                    processor(prompt, output, logits)
                    if processor is echo
                    else processor(output, logits)
                )
            logits[97] += 2
            for token in {*prompt, *output}:
                logits[token] *= 1 / 1.3 if logits[token] > 0 else 1.3
            output.append(int(logits.argmax()))
        outputs.append(tuple(output))
    for llm in engines:
        assert [out.token_ids for out in llm.generate(prompts, params)] == outputs


def test_what_processors_are_given(engines):
    for llm in engines:
        calls = []

        def look(prompt_ids, output_ids, logits, calls=calls):
            assert (
                logits.shape == (VOCAB_SIZE,)
                and logits.dtype == torch.float32
                and logits.device.type == "cpu"
            )
            calls.append((tuple(prompt_ids), tuple(output_ids)))
            prompt_ids.clear()
            output_ids.append(3)  # lists of its own
            return logits

        outputs = llm.generate(
            ["abc", "bcd"],
            [
                SamplingParams(max_tokens=20, logits_processors=[look]),
                SamplingParams(max_tokens=20),
            ],
        )
        token_ids = outputs[0].token_ids
        assert (
            outputs[0].token_ids == llm.generate("abc", SamplingParams(max_tokens=20))[0].token_ids
        )
        assert {token_ids[:length] for length in range(len(token_ids))} <= {
            output for _, output in calls
        }
        if llm is engines[0]:
            assert [output for _, output in calls] == [
                token_ids[:length] for length in range(len(token_ids))
            ]
        assert calls[0][0] == tuple(llm.tokenizer.encode("abc"))


FAILURES = {
    "raises": (
        raises,
        r"logits_processors\[1\] failed after 5 tokens of output: KeyError: 'nobody home'",
    ),
    "nothing": (
        lambda logits: None,
        "must return the logits, a torch.Tensor; it returned NoneType",
    ),
    "shape": (
        lambda logits: logits[None],
        r"must return float32 \[272\]; it returned float32 \[1, 272\]",
    ),
    "dtype": (
        lambda logits: logits.double(),
        r"must return float32 \[272\]; it returned float64 \[272\]",
    ),
    "NaN": (lambda logits: logits * torch.nan, "every logit that it returned is NaN"),
    "nothing left": (
        lambda logits: logits - torch.inf,
        "after 5 tokens of output: every token is forbidden by logits_processors, or",
    ),
    "nothing left by both": (
        lambda logits: torch.where(torch.arange(VOCAB_SIZE) == 5, logits, -torch.inf),
        "forbidden by logits_processors and bad_words, or",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_ends_its_own_request(engines, name):
    how, words = FAILURES[name]
    fine = SamplingParams(
        max_tokens=16,
        ignore_eos=True,
        seed=1,
        temperature=0.7,
        bad_words=["\x05"] if "both" in name else (),
    )
    bad = replace(fine, logits_processors=[alternate, fails_after(5, how)])
    for llm in engines:
        if "both" in name:
            bad = replace(bad, bad_words=[llm.tokenizer.decode([5])])
        expected = llm.generate(
            "abc", replace(fine, logits_processors=[alternate], bad_words=bad.bad_words)
        )[0]
        outputs = llm.generate(["abc", "xyz", "abc"], [fine, fine, bad])
        alone = llm.generate(["abc", "xyz"], fine)
        assert [out.token_ids for out in outputs[:2]] == [out.token_ids for out in alone]
        assert outputs[2].finish_reason == "error" and isinstance(outputs[2].error, RequestError)
        assert outputs[2].token_ids == expected.token_ids[:5], "what came before stays"
        with pytest.raises(RequestError, match=words):
            raise outputs[2].error
        assert name != "raises" or isinstance(outputs[2].error.__cause__, KeyError)


@pytest.mark.parametrize(
    "params",
    [dict(), dict(guide=Guide(regex="[a-z]{3,12}")), dict(stop="e")],
    ids=["end token", "guide", "stop"],
)
def test_only_what_is_output_can_fail(engines, params):
    """A processor that fails behind the output's end and on any other path: of drafts that were not
    accepted."""
    all_params = [
        SamplingParams(
            max_tokens=24, temperature=1.0, seed=seed, logit_bias={256: 3, 101: 2}, **params
        )
        for seed in range(6)
    ]
    expected = [out.token_ids for out in engines[0].generate(["abc"] * 6, all_params)]

    def check(expected, output_ids, logits):
        if tuple(output_ids) != expected[: len(output_ids)] or len(output_ids) == len(expected):
            raise ValueError(output_ids)
        return logits

    checked = [
        replace(one, logits_processors=[partial(check, tokens)])
        for one, tokens in zip(all_params, expected, strict=True)
    ]
    for llm in engines:
        outs = llm.generate(["abc"] * 6, checked)
        assert [(out.error, out.token_ids) for out in outs] == [(None, one) for one in expected]


def test_infinite_and_missing_numbers(engines):
    """+inf forces a token that the grammar allows; single NaNs are never chosen."""

    def force(output_ids, logits):
        logits[[b, q]] = torch.inf
        logits[a] = torch.nan
        return logits

    a, b, q = engines[0].tokenizer.encode("abq")

    for temperature in (0.0, 1.0):
        for llm in engines:
            (out,) = llm.generate(
                "abc",
                SamplingParams(
                    max_tokens=6,
                    temperature=temperature,
                    logits_processors=[force],
                    guide=Guide(regex="[a-f]{6}"),
                ),
            )
            assert out.text == "bbbbbb"


def test_log_probabilities_are_the_models_own(engines):
    params = SamplingParams(
        max_tokens=12, ignore_eos=True, logits_processors=[alternate, no_repeat], logprobs=3
    )
    for llm in engines:
        (out,) = llm.generate("abcab", params)
        prompt_ids = llm.tokenizer.encode("abcab")
        again = llm.generate(
            [[*prompt_ids, *out.token_ids[:n]] for n in range(12)],
            SamplingParams(max_tokens=1, ignore_eos=True, logprobs=20),
        )
        for token, entry, plain in zip(out.token_ids, out.logprobs, again, strict=True):
            for one in entry.keys() & plain.logprobs[0].keys():
                assert entry[one].logprob == pytest.approx(plain.logprobs[0][one].logprob, abs=1e-4)
            assert token in entry and len(entry) >= 3


def test_only_batches_with_processors_wait_for_results(folders):
    llm = make(folders, lag=1)
    engine = llm._engine
    for params, num_in_flight in (
        (SamplingParams(max_tokens=5), {1}),
        (SamplingParams(max_tokens=5, logits_processors=[no_repeat]), {0}),
    ):
        request, found = engine.add([5, 6, 7], replace(params, ignore_eos=True)), set()
        while request.finish_reason is None:
            engine.step()
            if request.finish_reason is None:  # what is surely its last is not followed
                found.add(len(engine._cycle.in_flight))
        assert found == num_in_flight and request.error is None
        while engine._cycle.in_flight:
            engine.step()
    llm.close()
