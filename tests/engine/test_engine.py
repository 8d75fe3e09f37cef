"""The engine end to end on tiny random checkpoints: speculation and guides never change what is
generated."""

from __future__ import annotations

import json
import time

import jsonschema
import numpy as np
import pytest
from baseline_llm import baseline_llm
from misfits import FAILURES, Scripted, check_a_failing_matcher, with_misfit
from random_requests import cases
from tiny_engine import K, generate, make

from specguide import Guide, GuideConfig, SamplingParams, SpecConfig


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
def test_speculation_changes_no_token(folders, params):
    prompts, all_params = cases(1, 30, **params)
    plain, *speculative = [], [], [], []
    for spec, lag, outputs in (
        (False, 1, plain),
        (True, 0, speculative[0]),
        (True, 1, speculative[1]),
        (True, 2, speculative[2]),
    ):
        llm = make(folders, spec=spec, lag=lag, max_batch_size=8)
        outputs += generate(llm, prompts, all_params)
    for outputs in speculative:
        assert [out.error for out in outputs] == [None] * len(prompts)
        assert [out.token_ids for out in outputs] == [out.token_ids for out in plain]
        assert [out.finish_reason for out in outputs] == [out.finish_reason for out in plain]
        assert any(out.metrics.acceptance_length > 1.3 for out in outputs)
    for out, param in zip(plain, all_params, strict=True):
        if param.guide is not None and out.finish_reason == "stop":
            jsonschema.validate(json.loads(out.text), param.guide.json_schema)


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize("spec", [True, False])
def test_output_ends_exactly_where_the_context_does(folders, spec, lag):
    prompts = ["abc " * 120 + "x" * n for n in range(28, 32)]
    outputs = make(folders, spec=spec, lag=lag).generate(
        prompts, SamplingParams(max_tokens=64, ignore_eos=True)
    )
    for prompt, out in zip(prompts, outputs, strict=True):
        assert (out.finish_reason, len(prompt) + len(out.token_ids)) == ("length", 512)


def test_a_batch_gives_what_each_request_gives_alone(folders):
    prompts, all_params = cases(2, 12)
    llm = make(folders, max_batch_size=8)
    alone = [
        llm.generate([prompt], [params])[0]
        for prompt, params in zip(prompts, all_params, strict=True)
    ]
    together = llm.generate(prompts, all_params)
    assert [out.token_ids for out in alone] == [out.token_ids for out in together]
    llm.close()


def test_walk_economy(folders):
    llm = make(folders)
    llm.generate(*cases(3, 30))
    counters = llm.stats().grammar
    assert counters["iterations"] > 100
    assert (
        counters["max_fills"] <= K + 1
        and counters["max_accepts"] <= K + 1
        and counters["max_rollbacks"] <= 1
    )
    assert counters["fills"] <= (K + 1) * counters["iterations"]
    llm.close()


@pytest.mark.parametrize(
    ("guide", "expected"),
    [
        (Guide(regex="(ab){2,3}"), r"(ab){2,3}"),
        (Guide(choice=["yes", "no"]), "yes|no"),
        (Guide(grammar='root ::= "a" [0-9] [0-9]'), "a[0-9]{2}"),
        (Guide(grammar='start: "x" /[0-9]+/ "y"'), "x[0-9]+y"),
    ],
)
def test_every_kind_of_guide(folders, guide, expected):
    import re

    (out,) = generate(
        make(folders), "hello", SamplingParams(max_tokens=40, temperature=1.0, seed=3, guide=guide)
    )
    assert out.finish_reason == "length" or re.fullmatch(expected, out.text), out


def test_a_bad_request_ends_alone(folders):
    llm = make(folders)
    guides = [None, Guide(json_schema={"type": "integer", "minimum": "x"}), Guide(regex="(")]
    good = llm.generate("ab", SamplingParams(max_tokens=5))[0]
    prompts = ["ab", "ab", "ab", "", "x" * 600, [1, 99999]]
    outs = llm.generate(
        prompts,
        [SamplingParams(max_tokens=5, guide=guide) for guide in [*guides, None, None, None]],
    )
    assert outs[0].token_ids == good.token_ids
    assert [out.finish_reason for out in outs[1:]] == ["error"] * 5
    for out, words in zip(
        outs[1:], ["minimum", "regular expression", "empty", "600 tokens", "99999"], strict=True
    ):
        assert words in str(out.error), out.error
    llm.close()


@pytest.mark.parametrize(("action", "words"), FAILURES)
@pytest.mark.parametrize(
    ("spec", "lag"), [(True, 0), (True, 1), (False, 0)], ids=["speculative", "lagging", "plain"]
)
def test_a_failing_matcher_ends_its_own_request(folders, action, words, spec, lag):
    check_a_failing_matcher(make(folders, spec=spec, lag=lag), action, words)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("lag", [0, 1])
def test_a_sleeping_matcher_delays_only_itself(folders, lag, at):
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=60, ignore_eos=True)] * 2
    llm = make(folders, guide=GuideConfig(deadline_us=2000), lag=lag)
    alone = llm.generate(prompts, params)

    def delays_no_other() -> bool:
        start = time.perf_counter()
        llm.generate(prompts, params)
        undisturbed_s = time.perf_counter() - start
        outs, misfit = with_misfit(llm, Scripted("sleep", at), prompts, params)
        assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
        assert len(misfit.output_ids) == 40
        assert misfit.metrics.num_held > 0 and misfit.error is None
        assert misfit.finish_reason == "length"
        assert outs[0].metrics.num_held == 0
        neighbours_s = max(out.metrics.total_s for out in outs)
        return neighbours_s < undisturbed_s + 0.2 + 0.004 * outs[0].metrics.num_iterations

    assert any(delays_no_other() for _ in range(3))  # other work on the machine may, too
    llm.close()


def test_rows_are_of_the_models_width_not_the_tokenizers(folders):
    (out,) = generate(
        make(folders),
        "a",
        SamplingParams(
            max_tokens=200,
            temperature=2.0,
            seed=1,
            guide=Guide(json_schema={"type": "string", "maxLength": 40}),
        ),
    )
    assert out.error is None and all(token <= 256 for token in out.token_ids)
    assert np.isfinite(out.metrics.total_s)


@pytest.mark.parametrize(
    "options", [dict(), dict(lag=1), dict(baseline="Python callbacks")], ids=str
)
def test_a_failed_iteration_leaves_the_next_ones_guided(folders, monkeypatch, options):
    spec = SpecConfig(model=folders[1], num_draft_tokens=K)
    llm = baseline_llm(folders[0], spec=spec, **options)
    guided = SamplingParams(max_tokens=20, guide=Guide(regex="(ab){2,3}"))
    state = llm._engine._executor.step._state
    monkeypatch.setattr(state, "enter", lambda *args: 1 / 0)
    (failed,) = llm.generate("a", guided)
    assert failed.finish_reason == "error" and "the iteration failed" in str(failed.error)
    monkeypatch.undo()
    for _ in range(2):
        (out,) = llm.generate("a", guided)
        assert out.error is None and out.text in ("abab", "ababab")
    llm._engine.check_integrity()
    llm.close()


@pytest.mark.parametrize(("spec", "lag"), [(False, 0), (True, 0), (True, 2)])
def test_stop_strings_end_the_text_and_the_tokens(folders, spec, lag):
    prompts, free = (
        [[65 + n] * 7 for n in range(10)],
        SamplingParams(max_tokens=48, ignore_eos=True),
    )
    llm = make(folders, spec=spec, lag=lag, max_batch_size=4)
    whole = llm.generate(prompts, free)
    assert [out.text for out in whole] == [llm.tokenizer.decode(out.token_ids) for out in whole]
    stops = [
        next(out.text[at : at + 2] for at in range(n, 46) if "\ufffd" not in out.text[at : at + 2])
        for n, out in enumerate(whole, 8)
    ]
    outs = llm.generate(
        prompts, [SamplingParams(max_tokens=48, ignore_eos=True, stop=stop) for stop in stops]
    )
    for out, stop, full in zip(outs, stops, whole, strict=True):
        assert out.text == full.text[: full.text.index(stop)] and (
            out.finish_reason,
            out.stop_reason,
        ) == ("stop", stop)
        assert out.token_ids == full.token_ids[: len(out.token_ids)]
        assert stop in llm.tokenizer.decode(out.token_ids) and stop not in llm.tokenizer.decode(
            out.token_ids[:-1]
        )
    llm._engine.check_integrity()
    llm.close()


def test_keys_in_any_order_come_out_the_same_with_drafts(folders):
    schema = {
        "type": "object",
        "properties": {name: {"enum": [1, "x"]} for name in ("a", "b", "ab", "c")},
        "required": ["ab", "c"],
        "additionalProperties": False,
    }
    guide = Guide(json_schema=schema, key_order="any")
    asked = [
        SamplingParams(max_tokens=80, temperature=temperature, seed=seed, guide=guide)
        for seed, temperature in enumerate([0.0, 0.0, 1.0])
    ]
    texts = []
    for spec in (False, True):
        llm = make(folders, spec=spec, guide=GuideConfig(max_whitespace=0))
        outputs = generate(llm, ["one", "other", "third"], asked)
        texts.append([out.text for out in outputs[:2]])
        for out in outputs:
            assert out.finish_reason == "stop", out
            found = json.loads(out.text, object_pairs_hook=list)
            assert len(dict(found)) == len(found)
            jsonschema.validate(dict(found), schema)
    assert texts[0] == texts[1]
