"""SamplingParams, Guide and the configurations refuse what they cannot honour, by name."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from typing import Any

import numpy as np
import pytest

from specguide.config import EngineConfig, GuideConfig, SpecConfig, TransferConfig
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidGuide, InvalidParams, UserError
from specguide.guide import Guide
from specguide.params import SamplingParams
from specguide.params.rules import num_processor_arguments
from specguide.request_records import RequestMetrics
from specguide.server.config import ServerConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", "hot"),
        ("top_k", -2),
        ("top_k", 2.0),
        ("top_k", None),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_p", math.nan),
        ("top_p", True),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("seed", -(2**63) - 1),
        ("seed", 2**63),
        ("seed", 1.0),
        ("logit_bias", {"1" * 5000: 1}),
        ("stop_token_ids", (-1,)),
        ("stop_token_ids", (1.5,)),
        ("guide", {"type": "object"}),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", [1]),
        ("stop", 0),
        ("n", 0),
        ("n", 129),
        ("n", True),
        ("timeout_s", 0),
        ("timeout_s", math.inf),
        ("timeout_s", "1"),
        ("include_stop_str_in_output", 1),
        ("skip_special_tokens", 0),
        ("ignore_eos", "false"),
        ("bad_words", np.array(3)),
        ("logprobs", -1),
        ("logprobs", 21),
        ("prompt_logprobs", -1),
        ("prompt_logprobs", 21),
        ("prompt_logprobs", True),
        ("logits_processors", len),
        ("logits_processors", [5]),
        ("logits_processors", [lambda logits: logits]),
        ("logits_processors", [lambda a, b, c, d: d]),
    ],
)
def test_wrong_parameter_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidParams, match=name) as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 1),
        ("temperature", 0),
        ("temperature", 2),
        ("top_k", -1),
        ("top_k", 0),
        ("top_p", 1),
        ("min_p", 0),
        ("min_p", 1.0),
        ("seed", 2**63 - 1),
        ("seed", -(2**63)),
        ("seed", None),
    ],
)
def test_bounds_belong_to_the_range(name: str, value: Any) -> None:
    assert getattr(SamplingParams(**{name: value}), name) == value


def test_a_seed_of_minus_1_is_none() -> None:
    assert SamplingParams(seed=-1).seed is None


def test_stop_tokens_become_a_tuple() -> None:
    assert SamplingParams(stop_token_ids=[3, 4]).stop_token_ids == (3, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "kept"), [(None, ()), ("###", ("###",)), (["a", "b"], ("a", "b"))]
)
def test_stop_strings_become_a_tuple(given: Any, kept: tuple[str, ...]) -> None:
    assert SamplingParams(stop=given).stop == kept


@pytest.mark.parametrize(
    ("processor", "num_arguments"),
    [
        (lambda output_ids, logits: logits, 2),
        (lambda prompt_ids, output_ids, logits: logits, 3),
        (lambda output_ids, logits, scale=2: logits, 2),
        (lambda *args: args[-1], 2),
        (lambda logits: logits, None),
        (functools.partial(lambda a, b, c, d: d, 1), 3),
        (lambda a, b, *, c: a, None),
        (max, 2),
    ],
)
def test_how_a_logits_processor_is_called(processor: Any, num_arguments: int | None) -> None:
    assert num_processor_arguments(processor) == num_arguments


def test_no_logits_processors_are_none_at_all() -> None:
    assert (
        SamplingParams(logits_processors=None)
        == SamplingParams(logits_processors=[])
        == SamplingParams()
    )


def test_unknown_parameter_is_refused() -> None:
    with pytest.raises(InvalidParams, match=r"'temprature'.*temperature") as caught:
        SamplingParams.from_dict({"temprature": 1.0})
    assert caught.value.param == "temprature"
    assert SamplingParams.from_dict({"top_k": 3}) == SamplingParams(top_k=3)


def test_parameter_that_a_guide_contradicts_is_refused() -> None:
    assert SamplingParams(ignore_eos=True).ignore_eos
    with pytest.raises(InvalidParams, match="ignore_eos"):
        SamplingParams(guide=Guide(regex="a+"), ignore_eos=True)


@pytest.mark.parametrize(
    ("given", "may"),
    [
        ({}, False),
        ({"stop": "a"}, True),
        ({"stop_token_ids": [5]}, False),
        ({"stop_token_ids": [5], "guide": Guide(regex="a+")}, True),
        ({"guide": Guide(regex="a+")}, False),
    ],
)
def test_whether_text_may_end_an_output(given: dict[str, Any], may: bool) -> None:
    """A free output ends with a stop token whatever its text is."""
    assert SamplingParams(**given).may_stop_by_text == may


def test_params_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplingParams().top_k = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("json_schema", {"type": "object"}),
        ("json_schema", True),
        ("json_schema", '{"type": "string"}'),
        ("json_schema", "false"),
        ("json_object", True),
        ("regex", "[a-z]+"),
        ("grammar", 'root ::= "a"'),
        ("choice", ["yes", "no"]),
        ("structural_tag", {"type": "structural_tag"}),
    ],
)
def test_guide_knows_its_kind(kind: str, value: Any) -> None:
    guide = Guide(**{kind: value})
    assert guide.kind == kind
    if kind in ("regex", "grammar"):
        assert guide.source() == value
    else:
        assert json.loads(guide.source()) == (
            json.loads(value) if isinstance(value, str) else value
        )


def test_equal_guides_have_one_source() -> None:
    assert (
        Guide(json_schema='{ "type":\n "string" }').source()
        == Guide(json_schema={"type": "string"}).source()
    )


@pytest.mark.parametrize(
    ("kinds", "words"),
    [({}, "found none"), ({"regex": "a", "choice": ["b"]}, "found regex and choice")],
)
def test_guide_holds_exactly_one_kind(kinds: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidGuide, match=words):
        Guide(**kinds)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("json_schema", "{not json"),
        ("json_schema", "[1]"),
        ("json_schema", 3),
        ("json_schema", {"a": object()}),
        ("json_object", False),
        ("json_object", {"type": "object"}),
        ("regex", ""),
        ("regex", 3),
        ("grammar", ""),
        ("choice", []),
        ("choice", "yes"),
        ("choice", ["a", ""]),
        ("choice", [1]),
        ("structural_tag", "true"),
    ],
)
def test_malformed_guide_is_named(kind: str, value: Any) -> None:
    with pytest.raises(InvalidGuide, match=kind) as caught:
        Guide(**{kind: value})
    assert caught.value.param == kind


def test_a_guide_that_is_nested_beyond_all_measure_is_malformed() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    for value in (schema, '{"items":' * 100_000 + "{}" + "}" * 100_000):
        with pytest.raises(InvalidGuide, match=r"json_schema .*recursion depth"):
            Guide(json_schema=value)


@pytest.mark.parametrize(
    ("build", "param"),
    [
        (lambda: SpecConfig("medusa"), "spec"),
        (lambda: SpecConfig(num_draft_tokens=0), "num_draft_tokens"),
        (lambda: SpecConfig(num_draft_tokens=17), "num_draft_tokens"),
        (lambda: GuideConfig(callbacks="python"), "callbacks"),
        (lambda: GuideConfig(deadline_us=0), "deadline_us"),
        (lambda: GuideConfig(draft_wait_us=-1), "draft_wait_us"),
        (lambda: GuideConfig(num_threads=0), "num_threads"),
        (lambda: GuideConfig(num_compile_threads=0), "num_compile_threads"),
        (lambda: GuideConfig(compile_timeout_s=math.nan), "compile_timeout_s"),
        (lambda: GuideConfig(cache_bytes=-1), "cache_bytes"),
        (lambda: GuideConfig(max_compile_bytes=1 << 63), "max_compile_bytes"),
        (lambda: GuideConfig(max_whitespace=1 << 32), "max_whitespace"),
        (lambda: GuideConfig(max_indent=1 << 32), "max_indent"),
        (lambda: GuideConfig(allow_truncation="no"), "allow_truncation"),
        (lambda: GuideConfig(max_depth="8"), "max_depth"),
        (lambda: SpecConfig(num_draft_tokens="3"), "num_draft_tokens"),
        (lambda: SpecConfig(num_forced_tokens=2.5), "num_forced_tokens"),
        (lambda: SpecConfig(adaptive="no"), "adaptive"),
        (lambda: SpecConfig(tree="10,6,60"), "tree"),
        (lambda: SpecConfig(tree=[]), "tree"),
        (lambda: SpecConfig(method=["ngram"]), "method"),
        (lambda: DynamicTree(depth=2.5), "depth"),
        (lambda: TransferConfig(kv_transfer_timeout_s="9"), "kv_transfer_timeout_s"),
        (lambda: EngineConfig(max_batch_size=0), "max_batch_size"),
        (lambda: EngineConfig(rank_timeout_s=math.inf), "rank_timeout_s"),
        (lambda: ServerConfig("m", api_servers=10**20), "api_servers"),
        (lambda: ServerConfig("m", template_timeout_s=math.inf), "template_timeout_s"),
        (lambda: ServerConfig("m", template_max_bytes=1 << 63), "template_max_bytes"),
    ],
)
def test_wrong_configuration_is_named(build: Any, param: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        build()
    assert caught.value.param == param


def test_acceptance_length_counts_the_golden_token() -> None:
    assert RequestMetrics().acceptance_length == 0
    metrics = RequestMetrics(num_iterations=4, accepted_histogram=[1, 0, 1, 2])
    assert metrics.acceptance_length == (1 * 1 + 1 * 3 + 2 * 4) / 4


def test_what_others_call_otherwise_is_taken_where_it_changes_nothing() -> None:
    options: dict[str, Any] = {"detokenize": True, "skip_special_tokens": True, "best_of": None}
    options |= {"spaces_between_special_tokens": False, "output_kind": 2, "flat_logprobs": False}
    nothing: dict[str, Any] = {"bad_words": None, "stop_token_ids": None, "stop": None}
    assert SamplingParams(top_k=3, **options, **nothing) == SamplingParams(top_k=3)
    assert SamplingParams.from_dict({"top_k": 3, **options}) == SamplingParams(top_k=3)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"best_of": 2}, "ask for n samples"),
        ({"truncate_prompt_tokens": 5}, "cut the prompt yourself"),
        ({"max_new_tokens": 5}, "max_new_tokens is not an option here: use max_tokens"),
        ({"regex": "a"}, r"use guide=Guide\(regex=…\)"),
        ({"guided_json": {}}, r"use guide=Guide\(json_schema=…\)"),
        ({"max_completion_tokens": 5}, "use max_tokens"),
        ({"do_sample": True}, "use temperature"),
        ({"prompt_logprob_start": 3}, "use prompt_logprobs"),
        ({"max_tokens": None}, "ends where the context does"),
        ({"structured_outputs": {"json": True, "disable_any_whitespace": True}}, "GuideConfig"),
        ({"structured_outputs": {"jsn": {}}}, "structured_outputs has no 'jsn'; known: json"),
        ({"structured_outputs": "{}"}, "structured_outputs must have"),
        ({"structured_outputs": {"regex": "a"}, "guide": Guide(regex="b")}, "give only one"),
    ],
    ids=str,
)
def test_and_is_refused_by_name_where_it_would(option: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParams, match=told) as caught:
        SamplingParams(**option)
    assert str(caught.value.param).split(".")[0] in option


def test_a_name_that_nobody_knows_is_refused_with_those_like_it() -> None:
    with pytest.raises(TypeError, match="no parameter 'temprature'; similar names: temperature"):
        SamplingParams(**{"temprature": 1})


@pytest.mark.parametrize("name", ["structured_outputs", "guided_decoding"])
def test_structural_tags_in_the_older_form(name: str) -> None:
    old = {"structures": [{"begin": "<f>", "schema": {}, "end": "</f>"}], "triggers": ["<f"]}
    guide = SamplingParams(**{name: {"structural_tag": json.dumps(old)}}).guide
    content = {"type": "json_schema", "json_schema": {}}
    tags = [{"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}]
    form = {"type": "triggered_tags", "triggers": ["<f"], "tags": tags}
    assert guide == Guide(structural_tag={"type": "structural_tag", "format": form})
    with pytest.raises(InvalidParams, match="structures need triggers") as caught:
        SamplingParams(**{name: {"structural_tag": {"structures": []}}})
    assert caught.value.param == name


def test_structured_outputs_are_guides() -> None:
    class StructuredOutputsParams:
        def __init__(self) -> None:
            self.json = {"type": "object"}
            self.regex = None
            self.disable_any_whitespace = False
            self._backend = "xgrammar"

    guide = Guide(json_schema={"type": "object"})
    assert SamplingParams(structured_outputs=StructuredOutputsParams()).guide == guide
    assert SamplingParams(guided_decoding={"json": guide.json_schema}).guide == guide
    params = SamplingParams(structured_outputs={"choice": ["a", "b"]}, n=2)
    assert dataclasses.replace(params, n=1).guide == Guide(choice=["a", "b"])
    with pytest.raises(InvalidGuide, match="exactly one of") as caught:
        SamplingParams(structured_outputs={})
    assert caught.value.param == "structured_outputs"
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=1.0)  # type: ignore[call-arg]
