"""The wire between fronts and core: what is sent comes back the same, and what is malformed is no
message."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specguide import Guide, Reasoning, SamplingParams, Speculation, errors
from specguide.engine.serving import wire
from specguide.engine.serving.stream import RequestDelta
from specguide.engine.serving.wire_data import (
    delta_of,
    error_data,
    error_of,
    params_of,
    params_text,
    wire_delta,
)
from specguide.engine.stats import EngineStats, Histogram
from specguide.request_records import Iteration, IterationTimes, Logprob, RequestMetrics

GUIDES = [
    None,
    Guide(json_schema={"type": "object", "maximum": 10**40}),
    Guide(json_schema='{"type": "integer", "minimum": 1e3}'),
    Guide(json_schema=True, key_order="any"),
    Guide(json_object=True),
    Guide(regex="[a-z\ud800]+", backend="llguidance"),
    Guide(choice=("yes", "no")),
    Guide(grammar='root ::= "a"'),
    Guide(grammar="start: /a/", calls={"opening": "3c", "later": None, "names": ["a"]}),
    Guide(structural_tag={"format": {"type": "const_string", "value": "x"}}),
]
PARAMS = [
    SamplingParams(),
    SamplingParams(max_tokens=10**30, temperature=0.7, top_k=-1, seed=2**63 - 1, n=5),
    SamplingParams(stop=["a", "ü\n"], include_stop_str_in_output=True, min_tokens=3),
    SamplingParams(stop_token_ids=[3, 4], ignore_eos=True, bad_words=["x"], timeout_s=0.5),
    SamplingParams(logit_bias={5: -3.5, 7: 100}, allowed_token_ids=[5, 7], logprobs=0),
    SamplingParams(prompt_logprobs=2, return_drafts=True, speculation=Speculation(0, 2, False)),
    *(SamplingParams(guide=guide, reasoning=guide and Reasoning("</r>")) for guide in GUIDES),
]
ERRORS = [
    errors.InvalidParams("wrong \ud800", param="top_k"),
    errors.PromptTooLong("long", param="prompt"),
    errors.UnsupportedGuide("no", keyword="not", path="/a"),
    errors.GuideLimitExceeded("too much", limit="max_depth"),
    errors.MatcherError("stuck"),
    errors.RequestTimeout("late", waited_s=1.5, ran_s=0.25),
    errors.QueueFull("full"),
    errors.CompilerBusy("busy"),
    errors.EngineClosed("closed"),
]


def sent(message, decoder):
    return decoder.decode(wire.ENCODER.encode(message))


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_parameters_come_back_the_same(params):
    message = sent(wire.AddRequest(1, [2, 3], params_text(params), -5, 0.5), wire.FROM_FRONT)
    found = params_of(message.params)
    if params.guide is None:
        assert found == params
    else:
        assert found.guide.source() == params.guide.source()
        assert (found.guide.kind, found.guide.backend) == (params.guide.kind, params.guide.backend)
        assert found.guide.calls == params.guide.calls
        assert found.reasoning == params.reasoning


def test_functions_stay_where_they_are():
    with pytest.raises(errors.InvalidParams, match="AsyncEngine"):
        params_text(SamplingParams(logits_processors=[lambda ids, logits: logits]))
    with pytest.raises(errors.InvalidGuide, match="AsyncEngine"):
        params_text(SamplingParams(guide=Guide(matcher=lambda: None)))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_come_back_as_their_class(error):
    if isinstance(error, errors.InvalidGuide):
        error.part = 2
    found = error_of(sent(wire.Refused(1, error_data(error)), wire.FROM_CORE).error)
    assert type(found) is type(error)
    assert str(found) == str(error).replace("\ud800", "?") and vars(found) == vars(error)


def test_an_error_of_a_class_of_somebody_else_is_the_nearest_one():
    class Own(errors.RequestError):
        pass

    assert type(error_of(error_data(Own("x")))) is errors.RequestError
    assert type(error_of(wire.ErrorData("NoSuchError", "x"))) is errors.EngineError
    assert type(error_of(wire.ErrorData("annotations", "x"))) is errors.EngineError


def test_deltas_come_back_the_same():
    scores = ({5: Logprob(-0.5, 1), 300_000: Logprob(float("-inf"), 2)},)
    times = IterationTimes(1.0, 0.1, 2.0, None, 0.25)
    delta = RequestDelta(
        "text",
        (5, 6),
        "stop",
        "stop string",
        errors.MatcherError("no"),
        RequestMetrics(3, 2, accepted_histogram=[1, 2], drafts_proposed={"head": 2}),
        index=2,
        logprobs=scores,
        prompt_logprobs=(None, *scores),
        iterations=(Iteration((1, 2), 1, (1, 9), False, times),),
    )
    (found,) = sent(wire.Deltas([wire_delta(7, delta)]), wire.FROM_CORE).deltas
    again = delta_of(found, "")
    assert (found.request, str(again.error)) == (7, "no")
    for name in set(type(delta).__struct_fields__) - {"error"}:
        assert getattr(again, name) == getattr(delta, name), name
    plain = RequestDelta("", (5,))
    assert (
        delta_of(sent(wire.Deltas([wire_delta(7, plain)]), wire.FROM_CORE).deltas[0], "") == plain
    )


def test_stats_come_back_the_same():
    histogram = Histogram((0.5, 1.0))
    histogram.observe(0.7)
    values = dict.fromkeys(EngineStats.__dataclass_fields__, 1)
    values |= {"grammar_exposed_s": None, "grammar": {"fills": 3}, "finished": {"stop": 2}}
    values |= {"latency": {"ttft": histogram}, "accepted": {"all": [1]}, "prompts": {"cached": 0}}
    values |= {
        "sizes": {"prompt": histogram},
        "acceptance": histogram,
        "guides": {},
        "transfers": {"pages": 2.0},
    }
    values |= {"adapters": {"sql": {"requests": 1}}}
    stats = EngineStats(**values)
    assert sent(wire.Answer(1, stats=stats), wire.FROM_CORE).stats == stats


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)
TAGS = st.sampled_from(["AddRequest", "Cancel", "Ask", "Deltas", "Answer", "Nothing", 3])


@given(st.binary(max_size=40) | st.tuples(TAGS, VALUES, VALUES, VALUES).map(wire.ENCODER.encode))
@example(b"\x91\xa4\x00\x00\x00\x80")
def test_what_is_malformed_is_no_message(frame):
    for decoder in (wire.FROM_FRONT, wire.FROM_CORE):
        try:
            message = decoder.decode(frame)
        except wire.MALFORMED:
            continue
        assert isinstance(message, wire.Message)


@pytest.mark.parametrize(
    "told", [[], "x", {"n": 0}, {"nothing": 1}, {"guide": 3}, {"guide": {"regex": ""}}], ids=str
)
def test_parameters_that_are_wrong_are_refused(told):
    with pytest.raises(errors.UserError):
        params_of(json.dumps(told))


def test_parameters_nested_too_deeply_to_be_read_are_refused():
    with pytest.raises(errors.InvalidParams, match="recursion"):
        params_of('{"guide":' + "[" * 100_000)
