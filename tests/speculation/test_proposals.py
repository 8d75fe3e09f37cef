"""Drafts that the host proposes, forced or looked up: they change how many iterations it takes and
nothing else."""

from __future__ import annotations

import re
import time

import pytest
import torch
from misfits import (
    FAILURES,
    HOLDING,
    ScriptedMatcher,
    check_a_failing_matcher,
    check_a_sleeping_matcher,
    with_misfit,
)
from proposals import METHODS, make, plain_outputs
from tiny_engine import K, generate, told

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.errors import InvalidParams
from specguide.guide import Reasoning
from specguide.sampling import append_drafts


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", METHODS)
def test_proposals_change_no_token(folders, method, temperature):
    backend, lag = ("xgrammar", 1) if temperature else ("auto", 2)
    prompts, all_params, expected = plain_outputs(folders, backend, temperature)
    outs = generate(
        make(folders, method, max_batch_size=8, lag=lag, guide=GuideConfig(backend=backend)),
        prompts,
        all_params,
    )
    assert told(outs) == expected
    assert any(out.metrics.acceptance_length > 1.3 for out in outs)
    check_metrics(outs, METHODS[method])


def check_metrics(outs, spec: dict) -> None:
    """Counts by origin agree with the histograms, and only who is there proposes."""
    for out in outs:
        metrics, accepted = out.metrics, out.metrics.drafts_accepted
        golden = sum(metrics.accepted_histogram)
        gained = sum(
            (number + 1) * count for number, count in enumerate(metrics.accepted_histogram)
        )
        assert gained - golden <= sum(accepted.values()) <= gained
        assert all(count <= metrics.drafts_proposed[origin] for origin, count in accepted.items())
        origins = {"grammar": set(), "ngram": {"lookup"}, "suffix": {"lookup"}}
        names = origins.get(spec.get("method", "eagle3"), {"model"})
        assert set(metrics.drafts_proposed) <= names | (
            {"forced"} if spec.get("num_forced_tokens") else set()
        )


@pytest.mark.parametrize("method", ["grammar", "eagle3 and grammar", "suffix and grammar"])
def test_reasoning_comes_before_forced_text(folders, method):
    reasoning = Reasoning(end="xy", begin="<t>", max_tokens=20)
    params = [
        SamplingParams(
            max_tokens=60,
            temperature=1.0,
            seed=n,
            guide=Guide(regex="abcdef[ab]{2,5}cdefgh"),
            reasoning=reasoning if n % 3 else None,
        )
        for n in range(9)
    ]
    prompts = [f"prompt {n}" for n in range(9)]
    outs = generate(make(folders, method), prompts, params)
    assert told(outs) == told(generate(make(folders, None), prompts, params))
    for out, param in zip(outs, params, strict=True):
        assert re.fullmatch(
            (r"<t>(?s:.*?)xy" if param.reasoning else "") + "abcdef[ab]{2,5}cdefgh", out.text
        )
        assert out.metrics.drafts_accepted["forced"] >= 2


@pytest.mark.parametrize("method", ["grammar", "eagle3 and grammar", "ngram and grammar"])
@pytest.mark.parametrize(("action", "words"), FAILURES)
def test_a_failing_matcher_ends_its_own_request(folders, method, action, words):
    check_a_failing_matcher(make(folders, method), action, words)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("method", ["grammar", "eagle3 and grammar", "ngram"])
def test_a_sleeping_matcher_is_held(folders, method, at):
    check_a_sleeping_matcher(make(folders, method, guide=HOLDING), at)


class Forcing:
    """A grammar of one endless text, whose matchers take their time over one row."""

    def matcher(self):
        return ForcingMatcher()


class ForcingMatcher(ScriptedMatcher):
    def __init__(self) -> None:
        super().__init__("sleep", 10**9)

    def fill(self, row):
        self.num_fills += 1
        token = 65 + self.num_accepted % 20
        row[:] = 0
        row[token // 32] = 1 << token % 32
        if self.num_fills == 20:
            time.sleep(0.2)


@pytest.mark.parametrize("method", ["grammar", "eagle3 and grammar"])
def test_a_held_slot_with_a_full_chain_goes_on(folders, method):
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=60, ignore_eos=True)] * 2
    llm = make(folders, method, guide=GuideConfig(deadline_us=2000))
    outs, forced = with_misfit(llm, Forcing(), prompts, params)
    assert forced.error is None and forced.metrics.num_held > 0
    assert forced.output_ids == [65 + number % 20 for number in range(40)]
    assert forced.metrics.acceptance_length > 2 and all(out.error is None for out in outs)
    llm.close()


def test_output_ends_exactly_where_the_context_does(folders):
    prompts = ["abc " * 120 + "x" * n for n in range(28, 32)]
    for method in ("eagle3 and grammar", "ngram", "suffix and grammar"):
        for out, prompt in zip(
            generate(
                make(folders, method, lag=2),
                prompts,
                SamplingParams(max_tokens=64, ignore_eos=True),
            ),
            prompts,
            strict=True,
        ):
            assert (out.finish_reason, len(prompt) + len(out.token_ids)) == ("length", 512)


def test_forced_text_costs_few_iterations(folders):
    """A whole object but for one boolean is forced; so is the end."""
    schema = {
        "type": "object",
        "properties": {
            "a_long_property_name": {"const": "and a constant value"},
            "another_property": {"type": "boolean"},
        },
        "required": ["a_long_property_name", "another_property"],
        "additionalProperties": False,
    }
    params = SamplingParams(max_tokens=200, guide=Guide(json_schema=schema))
    num_iterations = {}
    for method in (None, "grammar", "eagle3 and grammar"):
        llm = make(folders, method, guide=GuideConfig(max_whitespace=0))
        (out,) = generate(llm, ["a"], params)
        assert out.finish_reason == "stop"
        num_iterations[method] = out.metrics.num_iterations
    assert num_iterations["grammar"] < num_iterations[None] / 6
    assert num_iterations["eagle3 and grammar"] <= num_iterations["grammar"]


def test_forced_drafts_lengthen_what_the_shipped_model_accepts():
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "string"}
            for name in ("customer_name", "delivery_address", "order_number")
        },
        "additionalProperties": False,
        "required": ["customer_name", "delivery_address", "order_number"],
    }
    params = SamplingParams(max_tokens=80, guide=Guide(json_schema=schema))
    lengths, outputs = [], []
    for num_forced in (0, 8):
        llm = LLM(
            spec=SpecConfig(num_forced_tokens=num_forced),
            device="cpu",
            guide=GuideConfig(max_whitespace=0),
        )
        (out,) = llm.chat(
            [{"role": "user", "content": "Ann Lee of 3 Mill Road ordered number 1874."}], params
        )
        lengths.append(out.metrics.acceptance_length)
        outputs.append(out.token_ids)
        llm.close()
    assert outputs[0] == outputs[1] and lengths[1] > lengths[0]


def test_a_draft_model_that_is_the_target_is_right_behind_forced_tails_too(folders):
    llm = make(folders, "draft model and grammar")
    outs = generate(
        llm,
        ["abc", "{}", "a b c"],
        SamplingParams(
            max_tokens=60,
            guide=Guide(regex="([a-z]{3}-forced-[0-9]{2}=also-){20}"),
            allow_truncation=True,
        ),
    )
    for out in outs:  # but for what lies behind the last token of the output
        proposed, accepted = (
            sum(counts.values())
            for counts in (out.metrics.drafts_proposed, out.metrics.drafts_accepted)
        )
        assert proposed - accepted <= K + 8 and out.metrics.drafts_accepted["forced"] > 20


def test_what_has_been_there_is_looked_up(folders):
    prompt, params = (
        "abcdefgh" * 12,
        SamplingParams(max_tokens=64, guide=Guide(regex="(abcdefgh){8}")),
    )
    for method in ("ngram", "suffix"):
        (out,) = generate(make(folders, method), [prompt], params)
        assert out.metrics.acceptance_length > 3 and out.metrics.drafts_accepted["lookup"] > 40


def test_suffixes_of_earlier_outputs_are_drafts_of_later_requests(folders):
    llm = make(folders, "suffix")
    params = SamplingParams(max_tokens=40, ignore_eos=True, temperature=1.0, seed=3)
    (first,) = llm.generate(["q"], params)
    (second,) = llm.generate(["q"], params)
    assert first.token_ids == second.token_ids
    assert second.metrics.num_iterations < first.metrics.num_iterations / 2
    llm.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(method="grammar"), "1 to 32 with spec.method 'grammar', found 0"),
        (dict(num_forced_tokens=30), "num_forced_tokens must be 0 to 29"),
        (dict(num_forced_tokens=-1), "num_forced_tokens"),
        (dict(method="ngram", model="head"), "uses no draft head or model"),
        (dict(method="ngram", prompt_lookup_min=5), "with prompt_lookup_min ≤ prompt_lookup_max"),
        (dict(method="suffix", guided_drafts=False), "leave guided_drafts True"),
    ],
)
def test_what_the_configuration_refuses(options, words):
    with pytest.raises(InvalidParams, match=words):
        SpecConfig(**options)


def test_drafts_are_appended_behind_their_chains():
    tokens = torch.full((5, 4), -1, dtype=torch.int32)
    chain_len, num_accepted = torch.tensor([0, 2, 3, 1, 0]).int(), torch.tensor([0, 1, 2, -1]).int()
    append_drafts(
        torch.tensor([7, 8, 9, 6]).int(),
        chain_len,
        num_accepted,
        torch.tensor([0, 1, 2, 3]),
        tokens,
    )
    expected = torch.full((5, 4), -1, dtype=torch.int32)
    expected[0, 1], expected[1, 3] = 7, 8
    assert torch.equal(tokens, expected)
