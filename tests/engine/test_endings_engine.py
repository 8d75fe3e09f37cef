"""Guided outputs of an engine end within max_tokens: whole, valid, and the same with and without
drafts."""

from __future__ import annotations

import json
import random
from contextlib import closing

import jsonschema
import pytest
from random_requests import random_schema
from tiny_engine import K, make

from specguide import LLM, Guide, GuideConfig, Reasoning, SamplingParams, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams, PromptTooLong

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
}


def params(max_tokens: int, **others) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, guide=Guide(json_schema=SCHEMA), **others)


def cases() -> list[SamplingParams]:
    """Parameters of short and long texts, greedy and sampled, near their end from the start or
    later."""
    rng = random.Random(3)
    found = [params(most) for most in range(24, 64, 5)]
    found += [params(most, temperature=1.0, seed=most) for most in range(24, 64, 5)]
    for seed in range(8):
        guide = Guide(json_schema=random_schema(rng))
        found.append(SamplingParams(max_tokens=110, temperature=1.0, seed=seed, guide=guide))
    return found


@pytest.mark.parametrize("chosen", ["chain", "tree", "forced"])
def test_whole_outputs_and_the_same_without_drafts(folders, chosen):
    target, head = folders
    spec = {
        "chain": SpecConfig(model=head, num_draft_tokens=K),
        "tree": SpecConfig(model=head, tree=DynamicTree(3, 2, 8)),
        "forced": SpecConfig(model=head, num_draft_tokens=K, num_forced_tokens=4),
    }[chosen]
    asked = cases()
    with closing(LLM(target, spec=spec)) as llm, closing(make(folders, spec=False)) as plain:
        outputs, others = (one.generate(["ab"] * len(asked), asked) for one in (llm, plain))
    for output, other, one in zip(outputs, others, asked, strict=True):
        assert output.finish_reason == "stop"
        assert len(output.token_ids) <= one.max_tokens
        jsonschema.validate(json.loads(output.text), json.loads(one.guide.source()))
        if one.temperature == 0:
            assert output.token_ids == other.token_ids


def test_what_may_be_cut_off_is(folders):
    with closing(make(folders)) as llm:
        (output,) = llm.generate("ab", params(6, allow_truncation=True))
        assert output.finish_reason == "length" and len(output.token_ids) == 6
        (output,) = llm.generate("ab", params(6))
        assert output.finish_reason == "error"
        assert isinstance(output.error, InvalidParams) and output.error.param == "max_tokens"
        assert "max_tokens leaves room for 6" in str(output.error)


@pytest.mark.parametrize("max_tokens", [6, 10, 1000])
@pytest.mark.parametrize("reasoning", [None, Reasoning(end="</think>")])
def test_a_prompt_that_leaves_too_little_room_is_told_so(folders, max_tokens, reasoning):
    """More max_tokens would be of no use."""
    with closing(make(folders, max_model_len=64)) as llm:
        (output,) = llm.generate([[97] * 58], params(max_tokens, reasoning=reasoning))
    assert isinstance(output.error, PromptTooLong)
    assert "maximum context length is 64 tokens" in str(output.error)
    assert "the prompt has 58 and the shortest output" in str(output.error)


def test_an_engine_may_cut_off_all(folders):
    with closing(make(folders, guide=GuideConfig(allow_truncation=True))) as llm:
        (output,) = llm.generate("ab", params(6))
        assert output.finish_reason == "length" and len(output.token_ids) == 6


def test_reasoning_ends_in_time_too(folders):
    with closing(make(folders)) as llm:
        (output,) = llm.generate("ab", params(60, reasoning=Reasoning(end="</think>")))
        assert output.finish_reason == "stop" and len(output.token_ids) <= 60
        jsonschema.validate(json.loads(output.text.partition("</think>")[2]), SCHEMA)
