"""Requests with many tools: arguments that are compiled when their call begins change no output."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specguide import LLM, DynamicTree, Guide, GuideConfig, Reasoning, SamplingParams, SpecConfig
from specguide.guided.tools import Tool, tool_formats, tool_guide

PLACE = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
MARKS = {"<tool_call>": 0, "</tool_call>": 1}
SPECS = {
    "chain": SpecConfig(num_draft_tokens=3, num_forced_tokens=13),
    "tree": SpecConfig(tree=DynamicTree(10, 6, 60)),
}


def at_once(guide: Guide) -> Guide:
    return replace(guide, calls=None)


def test_calls_are_whole_or_refused():
    tools = [Tool(f"tool_{i}", PLACE) for i in range(40)]
    guide = tool_guide(tool_formats()["hermes"], tools, MARKS.get, GuideConfig(), must_call=True)
    llm = LLM(spec=SPECS["chain"], max_batch_size=4)
    params = [SamplingParams(guide=guide, max_tokens=most) for most in (10, 24, 27, 30, 36)]
    refused, *outputs = llm.generate(["a call"] * len(params), params)
    assert "the shortest output that matches the guide takes" in str(refused.error)
    for one in outputs:
        assert one.error is None
        assert json.loads(one.text)["arguments"]["city"] in ("Oslo", "Rome")
    llm.close()


@pytest.mark.parametrize("spec", SPECS)
def test_outputs_are_those_of_all_compiled_at_once(spec):
    tools = [
        Tool(f"tool_{i}", {**PLACE, "properties": {**PLACE["properties"], f"p{i}": {}}})
        for i in range(40)
    ]
    guide = tool_guide(tool_formats()["hermes"], tools, MARKS.get, GuideConfig(), must_call=True)
    assert guide.calls is not None
    llm = LLM(spec=SPECS[spec], max_batch_size=3)
    texts = []
    for asked in (guide, at_once(guide)):
        params = [
            SamplingParams(
                guide=asked,
                max_tokens=40,
                seed=i,
                temperature=0.9 if i else 0.0,
                allow_truncation=True,  # near the end, how much room is left is told otherwise
            )
            for i in range(3)
        ]
        params[1] = replace(params[1], reasoning=Reasoning("</think>", max_tokens=5))
        outputs = llm.generate(["a call", "why", "x {"], params)
        texts.append([output.token_ids for output in outputs])
    llm.close()
    assert texts[0] == texts[1]
    assert all("tool_" in llm.tokenizer.decode(tokens) for tokens in texts[0])
