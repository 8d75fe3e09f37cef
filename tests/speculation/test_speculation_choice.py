"""What a request takes of the engine's drafts: it changes how many iterations it takes and nothing
else."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from baseline_llm import baseline_llm
from proposals import METHODS, make, plain_outputs
from random_requests import cases
from speculation_choices import check_choice, fitting
from tiny_engine import generate, told

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig, Speculation
from specguide.errors import InvalidParams


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", METHODS)
def test_choices_mixed_in_one_batch_change_no_token(folders, method, temperature):
    layout = SpecConfig(**METHODS[method]).layout
    choices = fitting(layout)
    backend, lag = ("xgrammar", 1) if temperature else ("auto", 2)
    prompts, all_params, expected = plain_outputs(folders, backend, temperature)
    chosen = list(zip(all_params, cycle(choices)))
    outs = generate(
        make(folders, method, max_batch_size=8, lag=lag, guide=GuideConfig(backend=backend)),
        prompts,
        [replace(params, speculation=choice, return_drafts=True) for params, choice in chosen],
    )
    assert told(outs) == expected
    for out, (_, choice) in zip(outs, chosen, strict=True):
        check_choice(out, choice, layout)


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(guided_drafts=False),
        dict(baseline="two models"),
        dict(baseline="two models, Python callbacks"),
        dict(baseline="Python callbacks"),
    ],
    ids=str,
)
def test_choices_of_a_heads_drafts(folders, options):
    target, head = folders
    prompts, all_params = cases(3, 24)
    plain = LLM(target, spec=None).generate(prompts, all_params)
    guided_drafts = options.get("guided_drafts", True)
    spec = SpecConfig(model=head, num_draft_tokens=3, guided_drafts=guided_drafts)
    choices = [
        choice
        for choice in fitting(spec.layout)
        if spec.guided_drafts or choice is None or not choice.guided_drafts
    ]
    chosen = list(zip(all_params, cycle(choices)))
    llm = baseline_llm(target, options.get("baseline"), spec=spec)
    outs = llm.generate(
        prompts,
        [replace(params, speculation=choice, return_drafts=True) for params, choice in chosen],
    )
    assert told(outs) == told(plain)
    for out, (_, choice) in zip(outs, chosen, strict=True):
        check_choice(out, choice, spec.layout)
    assert not spec.guided_drafts or any(out.metrics.acceptance_length > 1.3 for out in outs)


def test_a_slots_next_request_has_its_own_choice(folders):
    llm = make(folders, "eagle3 and grammar", max_batch_size=1)
    params = SamplingParams(max_tokens=40, ignore_eos=True, return_drafts=True)
    lengths = [
        max(
            len(iteration.drafts)
            for iteration in llm.generate("abc ab", replace(params, speculation=choice))[
                0
            ].iterations
        )
        for choice in (None, Speculation(1), Speculation(0, 0), None)
    ]
    assert lengths == [3, 1, 0, 3]
    llm.close()


def test_unguided_drafts_of_one_request_may_be_of_any_tokens(folders):
    target, head = folders
    llm = LLM(target, spec=SpecConfig(model=head), max_batch_size=2)
    digits = {llm.tokenizer.encode(str(number))[0] for number in range(10)} | set(
        llm.tokenizer.eos_token_ids
    )
    outs = llm.generate(
        ["abc"] * 2,
        [
            SamplingParams(
                max_tokens=40,
                guide=Guide(regex="[0-9]{30}"),
                return_drafts=True,
                speculation=Speculation(guided_drafts=is_guided),
            )
            for is_guided in (True, False)
        ],
    )
    guided, unguided = (
        {draft for iteration in out.iterations for draft in iteration.drafts[:1]} for out in outs
    )
    assert outs[0].token_ids == outs[1].token_ids and guided <= digits and not unguided <= digits
    llm.close()


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        (Speculation(4), "num_draft_tokens must be at most 3"),
        (Speculation(0, 9), "num_forced_tokens must be at most 8"),
    ],
)
def test_more_than_the_engine_makes_is_refused(folders, choice, word):
    llm = make(folders, "eagle3 and grammar")
    bad, good = generate(
        llm,
        ["ab", "ab"],
        [SamplingParams(max_tokens=4, speculation=choice), SamplingParams(max_tokens=4)],
    )
    assert isinstance(bad.error, InvalidParams) and word in str(bad.error) and good.error is None


def test_guided_drafts_of_an_engine_without_them_are_refused(folders):
    llm = LLM(folders[0], spec=SpecConfig(model=folders[1], guided_drafts=False))
    (out,) = generate(
        llm, "ab", SamplingParams(max_tokens=4, speculation=Speculation(guided_drafts=True))
    )
    assert isinstance(out.error, InvalidParams) and "guided_drafts=False" in str(out.error)


def test_a_plain_engine_takes_a_choice_of_nothing(folders):
    llm = make(folders, None)
    none, some = generate(
        llm,
        ["ab", "ab"],
        [SamplingParams(max_tokens=4, speculation=Speculation(number)) for number in (0, 1)],
    )
    assert none.error is None and "at most 0" in str(some.error)


@pytest.mark.parametrize(
    "values",
    [
        dict(num_draft_tokens=-1),
        dict(num_forced_tokens=1.5),
        dict(num_draft_tokens=True),
        dict(guided_drafts=1),
    ],
)
def test_what_is_no_choice(values):
    with pytest.raises(InvalidParams, match=f"speculation.{next(iter(values))} must be"):
        Speculation(**values)
    with pytest.raises(InvalidParams, match="speculation must be"):
        SamplingParams(speculation=values)
