"""Faithful requests: drawn from what their guide admits by the model's own probabilities of whole
outputs, which a plain forward of the model tells."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
import torch
from chi_square import chi_square_p
from tiny_engine import make
from transformers import LlamaForCausalLM

from specguide import CacheConfig, Guide, SamplingParams
from specguide.engine.requests.faithful import ScoredSequences
from specguide.errors import EngineError, InvalidParams, PromptTooLong
from specguide.guided.matcher import allowed_tokens

PROMPT = "the answer is"
CHOICE = Guide(choice=["no", "none", "never", "yes", "yes!"])
ENUM = Guide(json_schema={"enum": ["b", True, 12, 17, None]})
FEW_PAGES = CacheConfig(page_size=4, num_pages=40)


@pytest.fixture(scope="module")
def model(folders):
    return LlamaForCausalLM.from_pretrained(folders[0], dtype=torch.float64)


@pytest.fixture
def drawn_from(monkeypatch):
    """The scores that engines draw from."""
    found, draw = [], ScoredSequences.draw

    def noting(self, temperature, seed):
        found.append(self)
        return draw(self, temperature, seed)

    monkeypatch.setattr(ScoredSequences, "draw", noting)
    return found


def by_brute_force(llm, model, guide, temperature, max_tokens=20):
    """Every admitted sequence with the logarithm of its product of probabilities, by a plain
    forward each time; and of its product where each token is drawn among those that may follow."""
    prompt_ids, width = llm.tokenizer.encode(PROMPT), llm._engine.vocab_size
    grammar = llm._engine.grammar_of(SamplingParams(guide=guide, allow_truncation=True))
    whole, found = [([], 0.0, 0.0)], {}
    while whole:
        tokens, logprob, masked = whole.pop()
        matcher, row = grammar.matcher(), np.zeros((width + 31) // 32, np.int32)
        assert all(map(matcher.accept, tokens))
        if matcher.is_terminated:
            found[tuple(tokens)] = logprob, masked
            continue
        if len(tokens) == max_tokens:
            continue
        matcher.fill(row)
        allowed = allowed_tokens(row).tolist()
        with torch.inference_mode():
            logits = model(torch.tensor([prompt_ids + tokens])).logits[0, -1] / temperature
        free, local = logits.log_softmax(-1), logits[allowed].log_softmax(-1)
        whole += [
            ([*tokens, token], logprob + float(free[token]), masked + float(local[place]))
            for place, token in enumerate(allowed)
        ]
    return found


def shares(logprobs):
    weights = {one: math.exp(logprob) for one, logprob in logprobs.items()}
    return {one: weight / math.fsum(weights.values()) for one, weight in weights.items()}


def distance(one, other):
    """Total variation."""
    return sum(abs(one[key] - other[key]) for key in one.keys() | other.keys()) / 2


def counts(outputs, expected):
    seen = Counter(sample.token_ids for output in outputs for sample in output.samples)
    assert seen.keys() <= expected.keys()
    return torch.tensor([seen[one] for one in expected])


@pytest.mark.parametrize("guide", [CHOICE, ENUM])
@pytest.mark.parametrize("temperature", [1.0, 6.0])
@pytest.mark.parametrize("spec", [False, True])
def test_the_distribution(folders, model, drawn_from, guide, temperature, spec):
    """It is that of brute force, its samples are too, and those of masking alone are not."""
    given = dict(guide=guide, temperature=temperature, max_tokens=20, n=128)
    faithful = [SamplingParams(faithful=True, seed=seed, **given) for seed in range(16)]
    masked = [SamplingParams(seed=seed, **given) for seed in range(16)]
    with closing(make(folders, spec=spec)) as llm:
        found = by_brute_force(llm, model, guide, temperature)
        exact = shares({one: logprob for one, (logprob, _) in found.items()})
        local = shares({one: logprob for one, (_, logprob) in found.items()})
        outputs = llm.generate([PROMPT] * 16, faithful)
        others = llm.generate([PROMPT] * 2, masked[:2])
        llm._engine.check_integrity()
    scored = drawn_from[0]
    told = dict(zip(scored.sequences, scored.probabilities(temperature), strict=True))
    assert distance(told, exact) < 1e-3
    assert all(sample.finish_reason == "stop" for one in outputs for sample in one.samples)
    expected = torch.tensor(list(exact.values()))
    assert chi_square_p(counts(outputs, exact), expected) > 1e-3
    assert distance(local, exact) > 0.02
    assert chi_square_p(counts(others, local), torch.tensor(list(local.values()))) > 1e-3


def test_the_likeliest_at_temperature_0(folders, model):
    with closing(make(folders)) as llm:
        found = by_brute_force(llm, model, CHOICE, 1.0)
        params = SamplingParams(guide=CHOICE, faithful=True)
        (output,) = llm.generate(PROMPT, params)
    assert output.token_ids == max(found, key=lambda one: found[one][0])


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("lag", [0, 1])
def test_log_probabilities_are_the_models_own(folders, model, temperature, lag):
    params = SamplingParams(
        guide=ENUM, faithful=True, temperature=temperature, logprobs=2, return_spans=True, n=4
    )
    with closing(make(folders, lag=lag)) as llm:
        found = by_brute_force(llm, model, ENUM, 1.0)
        (output,) = llm.generate(PROMPT, params)
    for sample in output.samples:
        own = [entry[t].logprob for t, entry in zip(sample.token_ids, sample.logprobs, strict=True)]
        assert sum(own) == pytest.approx(found[sample.token_ids][0], abs=1e-3)
        assert all(len(entry) in (2, 3) for entry in sample.logprobs)
        assert [span.role for span in sample.spans] == ["value"]


def test_a_seed_draws_the_same_and_few_pages_do_too(folders):
    params = SamplingParams(guide=ENUM, faithful=True, temperature=4.0, seed=5, n=16)
    with closing(make(folders)) as llm, closing(make(folders, cache=FEW_PAGES)) as small:
        first, again, other = (one.generate(PROMPT, params)[0] for one in (llm, llm, small))
        small._engine.check_integrity()
    texts = [[sample.text for sample in output.samples] for output in (first, again, other)]
    assert texts[0] == texts[1] == texts[2] and len(set(texts[0])) > 1


def test_neighbours_are_unhurt(folders):
    neighbour = SamplingParams(max_tokens=30, ignore_eos=True)
    asked = [neighbour, SamplingParams(guide=CHOICE, faithful=True, temperature=1.0), neighbour]
    with closing(make(folders, max_batch_size=3)) as llm:
        alone = llm.generate([PROMPT, "ab"], neighbour)
        first, drawn, last = llm.generate([PROMPT, PROMPT, "ab"], asked)
    assert [first.token_ids, last.token_ids] == [one.token_ids for one in alone]
    assert drawn.text in CHOICE.choice


def test_one_that_is_cancelled_leaves_nothing(folders):
    with closing(make(folders, max_batch_size=2)) as llm:
        engine, params = llm._engine, SamplingParams(guide=ENUM, faithful=True, temperature=1.0)
        requests = [engine.add(llm.tokenizer.encode(PROMPT), params) for _ in range(2)]
        while not engine._requests._faithful.samples:
            engine.step()
        engine.cancel(requests[0])
        engine.step()
        engine.cancel(requests[1])
        while engine.num_unfinished:
            engine.step()
        engine.check_integrity()
        assert [request.finish_reason for request in requests] == ["abort", "abort"]
        assert not engine._requests._faithful._keys


def test_scores_that_fail_in_one_iteration_end_their_sample_alone(folders):
    with closing(make(folders, max_batch_size=4)) as llm:
        engine, params = llm._engine, SamplingParams(guide=ENUM, faithful=True, temperature=1.0)
        sample = engine.add(llm.tokenizer.encode(PROMPT), params)
        faithful = engine._requests._faithful
        while len(faithful._keys) < 2:
            engine.step()
        (job,) = faithful._jobs.values()
        for request, *_ in list(job.active.values()):
            engine._requests.end(request, EngineError("there are no scores"))
        assert [one for _ in range(3) for one in engine.step()] == [sample]
        assert sample.finish_reason == "error" and "no scores" in str(sample.error)
        assert not faithful._keys


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 3),
        ("top_p", 0.9),
        ("min_p", 0.1),
        ("stop", "x"),
        ("logit_bias", {3: 1.0}),
        ("repetition_penalty", 1.1),
        ("min_tokens", 1),
        ("prompt_logprobs", 0),
        ("guide", None),
    ],
)
def test_what_it_does_not_honour_is_refused_by_name(name, value):
    with pytest.raises(InvalidParams, match=name) as caught:
        SamplingParams(**{"guide": CHOICE, "faithful": True, name: value})
    assert caught.value.param == ("faithful" if name == "guide" else name)


@pytest.mark.parametrize(
    ("guide", "max_tokens", "param", "words"),
    [
        (Guide(json_schema={"type": "string"}), 40, "faithful", "and not all"),
        (Guide(regex="[ab]{14}"), 40, "faithful", "at most 4096 token sequences"),
        (Guide(choice=["no", "never"]), 1, "max_tokens", "room for 1 and no output"),
        (Guide(choice=["no", "never"]), 1, "max_tokens", "the shortest takes 3 tokens; raise it"),
    ],
)
def test_guides_of_too_much_or_nothing(folders, guide, max_tokens, param, words):
    asked = SamplingParams(guide=guide, faithful=True, max_tokens=max_tokens)
    with closing(make(folders)) as llm:
        (output,) = llm.generate(PROMPT, asked)
    assert isinstance(output.error, InvalidParams) and output.error.param == param
    assert words in str(output.error)


@pytest.mark.parametrize("max_tokens", [3, 20, 100])
def test_a_prompt_that_leaves_too_little_room_is_told_so(folders, max_tokens):
    """More max_tokens would be of no use. A token more than an output takes scores it."""
    params = SamplingParams(guide=CHOICE, faithful=True, max_tokens=max_tokens)
    with closing(make(folders, max_model_len=64)) as llm:
        fits, *others = llm.generate([[97] * length for length in (60, 61, 63)], params)
    assert fits.text == "no" and fits.error is None
    for output, length in zip(others, (61, 63), strict=True):
        assert isinstance(output.error, PromptTooLong)
        told = f"the prompt has {length} and the shortest output that matches the guide takes 3; "
        assert told + "make the prompt shorter" in str(output.error)
        assert "allow_truncation" not in str(output.error)


def test_what_is_longer_than_max_tokens_is_not_among_it(folders, model, drawn_from):
    guide = Guide(regex="a+")
    params = SamplingParams(guide=guide, faithful=True, max_tokens=5, temperature=1.0)
    with closing(make(folders)) as llm:
        found = by_brute_force(llm, model, guide, 1.0, max_tokens=5)
        (output,) = llm.generate(PROMPT, params)
    assert output.finish_reason == "stop" and set(drawn_from[0].sequences) == set(found)
