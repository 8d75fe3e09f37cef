"""Requests with values that nobody means: each is served or refused for itself, and its neighbour
notices nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny_engine import make

from specguide import Guide, Reasoning, SamplingParams
from specguide.errors import EngineError, InvalidGuide, InvalidParams

HUGE = 2**70
NEIGHBOUR = SamplingParams(max_tokens=9, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(folders):
    llm = make(folders)
    yield llm
    assert llm._engine.failure is None
    llm._engine.check_integrity()
    llm.close()


@pytest.mark.parametrize(
    "params",
    [
        dict(stop_token_ids=(HUGE, 2**31)),
        dict(top_k=HUGE, temperature=1.0),
        dict(top_k=HUGE),
        dict(max_tokens=HUGE),
        dict(max_tokens=HUGE, min_tokens=HUGE),
        dict(temperature=1e-320),
        dict(temperature=1e29),
        dict(temperature=1.0, top_p=1e-320),
        dict(repetition_penalty=1e29),
        dict(repetition_penalty=1e-320),
        dict(timeout_s=1e29),
    ],
    ids=str,
)
def test_the_greatest_and_the_least(llm, params):
    odd, neighbour = llm.generate(
        ["ab", "cd"], [SamplingParams(**{"max_tokens": 9, "seed": 1, **params}), NEIGHBOUR]
    )
    assert odd.error is None and odd.finish_reason in ("stop", "length")
    assert neighbour.token_ids == llm.generate("cd", NEIGHBOUR)[0].token_ids


@pytest.mark.parametrize("guide", [None, Guide(regex="[a-c]{9}")], ids=["free", "guided"])
def test_a_top_p_that_is_no_float32_takes_the_likeliest_token(llm, guide):
    likeliest = SamplingParams(max_tokens=9, guide=guide, allow_truncation=guide is not None)
    least = replace(likeliest, temperature=1.0, seed=1, top_p=1e-320)
    found, greedy = llm.generate(["ab", "ab"], [least, likeliest])
    assert found.error is None and found.token_ids == greedy.token_ids


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_halves_of_surrogate_pairs(llm, text):
    for name in ("bad_words", "stop"):
        with pytest.raises(InvalidParams, match=f"{name} must be .*Unicode"):
            SamplingParams(**{name: [text]})
    for name in ("begin", "end"):
        with pytest.raises(InvalidParams, match=f"the {name} mark of reasoning"):
            Reasoning(**{name: text})
    odd, neighbour = llm.generate([text, "cd"], NEIGHBOUR)
    assert (
        isinstance(odd.error, InvalidParams)
        and "is not valid Unicode" in str(odd.error)
        and neighbour.error is None
    )
    odd, neighbour = llm.chat(
        [[{"role": "user", "content": content}] for content in (text, "cd")], NEIGHBOUR
    )
    assert isinstance(odd.error, InvalidParams) and neighbour.error is None


@pytest.mark.parametrize("kind", ["regex", "grammar"])
def test_a_guide_with_half_of_a_surrogate_pair(llm, kind):
    guided = SamplingParams(guide=Guide(**{kind: "\ud800"}))
    odd, neighbour = llm.generate(["ab", "cd"], [guided, NEIGHBOUR])
    assert isinstance(odd.error, InvalidGuide) and "U+D800, half of" in str(odd.error)
    assert neighbour.finish_reason == "length"


@pytest.mark.parametrize("named", [{"priority": "high"}, {"client": []}], ids=str)
@pytest.mark.parametrize("guide", [None, Guide(regex="a+")], ids=["free", "guided"])
def test_what_fails_unforeseen_while_it_is_taken_up_fails_alone(llm, guide, named):
    neighbour = llm._engine.add([5, 6], NEIGHBOUR)
    odd = llm._engine.add([5, 6], SamplingParams(guide=guide), **named)  # no number, no text at all
    while llm._engine.num_unfinished:
        llm._engine.step()
    assert isinstance(odd.error, EngineError) and "could not be started: TypeError" in str(
        odd.error
    )
    assert neighbour.finish_reason == "length"
