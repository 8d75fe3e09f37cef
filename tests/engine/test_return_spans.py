"""Requests that ask for spans: whatever drafts them, and in whatever windows they come, each field
of the output is told with its tokens and their log-probabilities."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from async_engines import start
from tiny_engine import generate

from specguide import LLM, DynamicTree, Guide, GuideConfig, Reasoning, SamplingParams, SpecConfig
from specguide.engine.serving.wire_data import params_text
from specguide.errors import InvalidGuide, InvalidParams
from specguide.guided.tools import Tool, tool_formats, tool_guide
from specguide.request import RequestOutput
from specguide.request_records import OutputSpan

SCHEMA = {
    "type": "object",
    "properties": {
        "a/b": {"type": "array", "items": {"enum": [1, "x y", None, True]}, "maxItems": 3},
        "unit price": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}},
        "é": {"type": "string", "maxLength": 6},
    },
    "required": ["a/b", "unit price", "é"],
    "additionalProperties": False,
}
SPECS = {
    "plain": dict(spec=None),
    "chain": dict(num_draft_tokens=3),
    "chain with forced": dict(num_draft_tokens=3, num_forced_tokens=29),
    "tree": dict(tree=DynamicTree(10, 6, 60)),
    "grammar": dict(method="grammar", num_forced_tokens=32),
    "suffix": dict(method="suffix", num_draft_tokens=16, num_forced_tokens=16),
}


def asked() -> list[SamplingParams]:
    """JSON; a call in two formats; JSON and a call behind reasoning."""
    tools = [Tool("get.weather", SCHEMA), Tool("time", {"type": "object", "properties": {}})]
    calls = [
        tool_guide(tool_formats()[name], tools, lambda _: None, GuideConfig(), must_call=True)
        for name in ("hermes", "qwen3_coder")
    ]
    answer, think = Guide(json_schema=SCHEMA), Reasoning("</think>", max_tokens=9)
    rest: dict[str, Any] = dict(max_tokens=200, logprobs=0, return_spans=True)
    return [
        SamplingParams(guide=answer, **rest),
        *(SamplingParams(guide=guide, **rest) for guide in calls),
        SamplingParams(guide=answer, reasoning=think, **rest),
        SamplingParams(guide=calls[0], reasoning=think, **rest),
    ]


PROMPTS = ["ab", "the weather", "x {", "why", "a:"]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Pointer and value of each scalar."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, f"{path}/{index}")
    else:
        yield path, value


def holds(text: str, value: Any) -> bool:
    """Whether a text has a JSON value in it."""
    for at in range(len(text)):
        try:
            found, _ = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            continue
        if found == value and type(found) is type(value):
            return True
    return False


def check(out: RequestOutput, llm: LLM) -> None:
    """Compare an output's spans with its text as JSON."""
    assert out.error is None and out.spans and out.logprobs
    spelled = llm.tokenizer.vocabulary().token_bytes
    text = b"".join(spelled[token] for token in out.token_ids).decode(errors="replace")
    for span in out.spans:
        assert 0 <= span.start < span.end <= len(out.token_ids)
        own = [out.logprobs[i][out.token_ids[i]].logprob for i in range(span.start, span.end)]
        assert span.logprob == math.fsum(own)
    values = [span for span in out.spans if span.role == "value"]
    names = [span for span in out.spans if span.role == "name"]
    if names:
        assert [(span.tool, span.call) for span in names] == [(names[0].tool, 0)]
        assert all(span.tag == "tool" and span.tool == names[0].tool for span in values)
        return
    answer = json.loads(text.rpartition("</think>")[2])
    told = dict(leaves(answer))
    assert [span.path for span in values] == list(told)
    for span in values:
        ids = out.token_ids[span.start : span.end]
        own_text = b"".join(spelled[token] for token in ids).decode(errors="replace")
        assert holds(own_text, told[span.path or ""])


@pytest.mark.parametrize("name", SPECS)
def test_whatever_drafts(folders, name):
    options = SPECS[name]
    target, head = folders
    has_head = "method" not in options and options.get("spec", 0) is not None
    spec = SpecConfig(model=head, **options) if has_head else None
    spec = SpecConfig(**options) if "method" in options else spec
    llm = LLM(target, spec=spec, guide=GuideConfig(deadline_us=60_000_000))
    try:
        for out in llm.generate(PROMPTS, asked()):
            check(out, llm)
    finally:
        llm.close()


def test_a_stream_tells_the_same(folders):
    async def stream() -> list[list[OutputSpan]]:
        engine, found = start(folders), list[list[OutputSpan]]()
        try:
            for prompt, params in zip(PROMPTS[2:4], asked()[2:4], strict=True):
                deltas = [delta async for delta in engine.generate(prompt, params)]
                found.append([span for delta in deltas for span in delta.spans or ()])
        finally:
            await engine.close(0)
        return found

    target, head = folders
    llm = LLM(target, spec=SpecConfig(model=head, num_draft_tokens=3))
    expected = [list(out.spans or ()) for out in generate(llm, PROMPTS[2:4], asked()[2:4])]
    without = [[span._replace(logprob=None) for span in spans] for spans in expected]
    found = asyncio.run(stream())
    assert [[span._replace(logprob=None) for span in spans] for spans in found] == without


def test_structural_tags(folders):
    content = {"type": "json_schema", "json_schema": SCHEMA}
    tags = [{"begin": "<f>", "content": content, "end": "</f>"}]
    form = {"type": "tags_with_separator", "separator": "", "tags": tags}
    form |= {"at_least_one": True, "stop_after_first": True}
    guide = Guide(structural_tag={"type": "structural_tag", "format": form})
    params = SamplingParams(guide=guide, max_tokens=200, return_spans=True, logprobs=0)
    [out] = generate(LLM(folders[0], spec=None), ["ab"], params)
    values = [span for span in out.spans or () if span.role == "value"]
    assert [span.path for span in values] == [
        path for path, _ in leaves(json.loads(out.text[3:-4]))
    ]
    assert all((span.tag, span.tool, span.call) == ("tool", "<f>", 0) for span in out.spans or ())


def test_a_malformed_tag_ends_its_own_request_alone(folders):
    llm = LLM(folders[0], spec=None)
    malformed = Guide(structural_tag={"type": "structural_tag"})
    out, free = generate(
        llm,
        ["ab", "ab"],
        [
            SamplingParams(guide=malformed, max_tokens=4, return_spans=True),
            SamplingParams(max_tokens=4, ignore_eos=True),
        ],
    )
    assert isinstance(out.error, InvalidGuide) and out.spans == ()
    assert free.finish_reason == "length"


def test_who_does_not_ask_gets_none(folders):
    llm = LLM(folders[0], spec=None)
    out, free = generate(
        llm,
        ["ab", "ab"],
        [SamplingParams(max_tokens=4), SamplingParams(max_tokens=4, return_spans=True)],
    )
    assert out.spans is None
    [span] = free.spans or ()
    assert span == OutputSpan("content", "text", None, None, None, 0, span.end)


def test_another_process_does_not_read_them():
    with pytest.raises(InvalidParams, match="use AsyncEngine") as caught:
        params_text(SamplingParams(return_spans=True))
    assert caught.value.param == "return_spans"
